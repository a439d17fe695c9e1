"""The HTML page of all measurements: content, broken files, no dependence on other files."""

import base64
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from support.sample_report import draw, sample_report, write_report
from support.small_runs import ROOT

from attnlab.config.validation.type_check import record_problem
from attnlab.report.cli import report_main
from attnlab.report.page.cli import page_main
from attnlab.report.report_record import ReportFile, read_report, report_text

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
EMPTY = {"img", "meta", "br", "hr"}


class Outline(HTMLParser):
    """Checks that elements are closed in order, and collects the contents of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        self.ids += [value for key, value in attrs if key == "id"]
        self.open += [] if tag in EMPTY else [tag]

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        self.text += data if self.open[-1:] != ["style"] else ""

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.seen if name == tag]


def outline(file: Path) -> Outline:
    result = Outline()
    result.feed(file.read_text())
    result.close()
    assert not result.open
    assert len(set(result.ids)) == len(result.ids)
    return result


def make(folder: Path) -> tuple[int, Path]:
    """The page of the folders `measured` and `reports` below a folder."""
    for name in ("measured", "reports"):
        (folder / name).mkdir(exist_ok=True)
    out = folder / "report.html"
    return page_main([f"measured={folder / 'measured'}", f"reports={folder / 'reports'}", f"out={out}"]), out


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two reports, a diagnosis, committed results, and three files that cannot be shown."""
    folder = tmp_path_factory.mktemp("page")
    reports = shutil.ignore_patterns("park2024")
    shutil.copytree(ROOT / "experiments/measured", folder / "measured", ignore=reports)
    first = write_report(folder / "measured/park2024/table2")
    draw(first / "diagnosis/linear_seed0/norms.png")
    (first / "diagnosis/linear_seed0/norms.csv").write_text("head,norm\n0,1\n")
    alone = sample_report()
    rows = [row | {"cells": row["cells"][:1]} for row in alone["rows"]]
    requested = [("linear_l2_ortho", "linear", "supported"), ("linear", "vanilla", "not supported")]
    hypotheses = [
        {"row": row, "than": than, "column": "unary", "verdict": verdict, "reason": "r", "declared": f"of {row}"}
        for row, than, verdict in requested
    ]
    item = {"columns": alone["columns"][:1], "rows": rows, "comparisons": [], "protocol": None}
    item |= {"hypotheses": hypotheses, "highlight": "linear_l2_ortho"}
    write_report(folder / "reports/other", experiment="park2024/table1", title="One column", **item)
    (folder / "reports/cut").mkdir()
    (folder / "reports/cut/report.json").write_text('{"experiment": "x", "ti')
    (folder / "reports/foreign").mkdir()
    (folder / "reports/foreign/report.json").write_text('{"name": "a package"}')
    assert make(folder)[0] == 0
    return folder / "report.html"


def test_it_holds_tables_seeds_comparisons_and_origin(sample: Path) -> None:
    text = " ".join(outline(sample).text.replace("\N{NO-BREAK SPACE}", " ").split())
    for expected in (
        "Protocol: width 64, 4 heads, 4 layers, 3,000 steps, three seeds.",
        "Published values: Park & Kim 2024, table 2, 5 trials.",
        "67.3 ± 27.2 (3)",
        "70.8 ± 1.0 (2 of 3)",
        "below 46.9",
        "71.5 (seed 1)",
        "\N{MINUS SIGN}2.22",
        "\N{MINUS SIGN}0.2 to +47.8",
        "vanilla: missing, seeds 0, 1, 2",
        "failed: NonFiniteLoss: step 12",
        "python train.py experiment=park2024/table2_sort_of_clevr_small",
        "1,234 s, all runs together",
        "linear_seed0",
        "Committed results: 4 of 6 cells and 6 of 9 runs measured.",
        "Reports of this machine: 2 of 3 cells and 6 of 9 runs measured; of 2 hypotheses 1 supported, 1 not supported.",
        "written by an older version, without answers to hypotheses",
        "linear is better than vanilla",
        "One column: r; of linear_l2_ortho",
        "Every task in a few hundred steps",
        "pre-norm, final norm and scaled-up tokens",
    ):
        assert expected in text, expected


def test_every_protocol_has_a_table_of_its_own(sample: Path) -> None:
    sections = re.split(r"<section ", sample.read_text())
    held = [section for section in sections if "linear_l2_ortho</th>" in section]
    assert len(held) == 2
    assert "linear_l2_ortho</th>" not in sections[0]


def test_cells_lead_to_their_runs(sample: Path) -> None:
    """The number of seeds of a cell is a link to the lines of its row, one for each run."""
    page = sample.read_text()
    place = re.search(r'70\.8 ± 1\.0 <a href="#([^"]+)"', page)[1]
    lines = re.search(rf'<tbody class="group" id="{place}">(.*?)</tbody>', page, re.DOTALL)[1]
    assert re.findall(r'<th scope="row">(.*?)</th><td class="n">(\d)</td>', lines) == [
        ("linear_l2_ortho", str(seed)) for seed in range(3)
    ]
    assert "71.5" in lines and "failed: NonFiniteLoss: step 12" in lines


def test_pictures_hold_their_captions(tmp_path: Path) -> None:
    from attnlab.plots.png_caption import caption_of

    alone = draw(tmp_path / "reports/diagnosis/values.png", caption="all values nearly parallel.")
    alone.with_suffix(".csv").write_text("run,head\n")
    assert caption_of(alone) == "all values nearly parallel."
    assert make(tmp_path)[0] == 0
    assert "all values nearly parallel." in outline(tmp_path / "report.html").text


def test_hypotheses_of_several_reports_are_drawn_together(tmp_path: Path) -> None:
    unit = sample_report()["columns"][0]["unit"]
    answer = {"row": "linear_l2_ortho", "than": "linear", "column": "unary", "verdict": "supported", "reason": "r"}
    drawn = answer | {"difference": 20.0, "low": 5.0, "high": 35.0, "p": 0.01}
    for name, answers in (("one", [drawn]), ("other", [answer])):
        write_report(tmp_path / "reports" / name, experiment=name, title=name, hypotheses=answers)
    assert make(tmp_path)[0] == 0 and unit == "percent"
    captions = [str(image["alt"]) for image in outline(tmp_path / "report.html").all("img")]
    assert [caption for caption in captions if "hypotheses of 2 reports" in caption]


def test_meanings_are_marked(sample: Path) -> None:
    page = outline(sample)
    assert all(head.get("scope") in ("col", "row", "rowgroup") for head in page.all("th"))
    assert page.all("html")[0]["lang"] == "en" and page.all("title") and len(page.all("h1")) == 1
    assert all(image["alt"] for image in page.all("img"))
    in_texts = sum(text.read_text().count("![") for text in (ROOT / "experiments/measured").rglob("README.md"))
    assert len(page.all("figure")) == len(page.all("figcaption")) == len(page.all("img")) - in_texts
    inside = {link["href"][1:] for link in page.all("a") if link["href"].startswith("#")}
    assert inside and inside <= set(page.ids)


def test_it_needs_nothing_but_itself(sample: Path) -> None:
    page = outline(sample)
    assert not {"script", "link", "iframe", "object"} & {name for name, _ in page.seen}
    loads = [attributes.get("src") for _, attributes in page.seen if attributes.get("src")]
    assert loads and all(source.startswith("data:image/png;base64,") for source in loads)
    assert base64.b64decode(loads[0].partition(",")[2]).startswith(b"\x89PNG")
    assert "url(" not in sample.read_text() and "@import" not in sample.read_text()


def test_links_to_numbers_lead_to_files(sample: Path) -> None:
    links = [link["href"] for link in outline(sample).all("a") if link["href"].endswith(".csv")]
    assert "measured/park2024/table2/seeds.csv" in links
    assert all((sample.parent / link).is_file() for link in links)


def test_text_is_escaped(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\"'&"
    changes = {"title": evil, "protocol": evil, "problems": [evil], "train_command": evil, "experiment": evil}
    folder = write_report(tmp_path / "measured" / "x", figures=[{"file": "bars.png", "caption": evil}], **changes)
    (folder / "README.md").write_text(f"# A {evil}\n\n{evil} [a](javascript:alert(1)) <img src=http://there/x.png>\n")
    assert make(tmp_path)[0] == 0
    page = outline(tmp_path / "report.html")
    assert not page.all("script") and evil in page.text
    assert not any(str(link.get("href")).startswith("javascript") for link in page.all("a"))
    assert page.all("img")[0]["alt"] == f"Chart: {evil}"


def test_broken_and_foreign_reports_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = {
        "cut": '{"experiment": "x"',
        "empty": "",
        "list": "[1, 2]",
        "foreign": '{"name": "a package"}',
        "cell": json.dumps(sample_report(columns=[{"name": "unary"}])),
        "type": json.dumps(sample_report(rows=[{"name": "a", "cells": [{"column": "unary", "mean": "high"}]}])),
        "best": json.dumps(sample_report()).replace('"best": [1,', '"best": [1, 2,', 1),
    }
    for name, text in broken.items():
        (tmp_path / "measured" / name).mkdir(parents=True)
        (tmp_path / "measured" / name / "report.json").write_text(text)
    code, out = make(tmp_path)
    printed, shown = capsys.readouterr().err, outline(out).text
    assert code == 0
    for name in broken:
        line = next(line for line in printed.splitlines() if f"{name}/report.json" in line)
        assert line.startswith("skipped ") and line in shown
    assert "rows.0.cells.0.mean: expected a number" in printed
    assert "unknown column ternary" in printed


def test_broken_pictures_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("bars.png", "gone.png", "cut.png", "../../outside.png")
    figures = [{"file": name, "caption": f"of {name}"} for name in names]
    folder = write_report(tmp_path / "measured" / "x", figures=figures)
    (folder / "cut.png").write_bytes((folder / "bars.png").read_bytes()[:500])
    (tmp_path / "outside.png").write_bytes((folder / "bars.png").read_bytes())
    assert make(tmp_path)[0] == 0
    printed, page = capsys.readouterr(), outline(tmp_path / "report.html")
    assert len(page.all("img")) == 1 and "1 picture," in printed.out
    for name in names[1:]:
        assert f"{name}" in printed.err and f"is missing: of {name}" in page.text


def test_a_report_in_two_places_stands_there_once(tmp_path: Path) -> None:
    write_report(tmp_path / "measured" / "x")
    shutil.copytree(tmp_path / "measured" / "x", tmp_path / "reports" / "x")
    assert make(tmp_path)[0] == 0
    page = outline(tmp_path / "report.html")
    assert len(page.all("section")) == 1 and "its report is that of" in page.text


def test_one_folder_named_twice_is_read_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_report(tmp_path / "reports" / "x")
    words = [f"measured={tmp_path / 'reports'}", f"reports={tmp_path / 'reports'}", f"out={tmp_path / 'report.html'}"]
    assert page_main(words) == 0
    assert "1 report," in capsys.readouterr().out
    assert len(outline(tmp_path / "report.html").all("section")) == 1


def test_the_form_fits_what_it_should() -> None:
    assert record_problem(sample_report(), ReportFile) is None
    assert record_problem(json.loads(json.dumps(sample_report(origin=None, comparisons=[]))), ReportFile) is None
    assert record_problem({**sample_report(), "rows": None}, ReportFile) == "rows: expected a list"


def test_the_description_holds_all_that_is_written() -> None:
    """Files of older versions lack fields that were added later."""

    def without_empty(content: Any) -> Any:
        if isinstance(content, dict):
            return {key: without_empty(value) for key, value in content.items() if value not in (None, [], {})}
        return [*map(without_empty, content)] if isinstance(content, list) else content

    files = sorted((ROOT / "experiments/measured").rglob("report.json"))
    assert files
    for file in files:
        written = json.loads(report_text(read_report(file)))
        assert without_empty(written) == without_empty(json.loads(file.read_text()))


def test_options_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert page_main(["mesured=x", "out", f"reports={tmp_path / 'nowhere'}"]) == 2
    printed = capsys.readouterr().err
    assert "nearest: measured" in printed and "expected out=<file>" in printed and "no such folder" in printed
    assert page_main(["--help"]) == 0 and report_main(["page", "--help"]) == 0
    assert page_main([f"measured={tmp_path}", f"out={tmp_path}"]) == 2
    (tmp_path / "file").write_text("")
    assert page_main([f"measured={tmp_path}", f"reports={tmp_path}", f"out={tmp_path / 'file' / 'x.html'}"]) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_no_empty_columns_where_nothing_was_published(tmp_path: Path) -> None:
    rows = sample_report()["rows"]
    for cell in (cell for row in rows for cell in row["cells"]):
        cell |= {"published": None, "difference": None, "difference_in_sd": None}
    write_report(tmp_path / "measured" / "x", rows=rows, published=None, protocol=None)
    assert make(tmp_path)[0] == 0
    text = outline(tmp_path / "report.html").text
    assert "nothing was published at these settings" in text and "\N{MINUS SIGN} published" not in text


def test_nothing_measured_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = make(tmp_path)
    assert code == 0 and "No report yet" in outline(out).text
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"nothing measured was found below {tmp_path / 'measured'}, {tmp_path / 'reports'}")
    assert last.startswith(f"{out}: 0 reports")


def test_a_table_of_folders_has_no_protocol_of_an_experiment(tmp_path: Path) -> None:
    write_report(tmp_path / "reports/x", published=None, protocol=None, train_command="")
    assert make(tmp_path)[0] == 0
    assert "table is of run folders and not of an experiment" in outline(tmp_path / "report.html").text


MEASURE = """<script>
document.body.dataset.pictures = [...document.images].map(image => image.naturalWidth).join();
document.body.dataset.tables = [...document.querySelectorAll('table')].filter(table => table.offsetHeight > 20).length;
document.body.dataset.wide = document.documentElement.scrollWidth > window.innerWidth;
</script></body>"""


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
@pytest.mark.parametrize("width", [500, 1200])
def test_a_browser_shows_it_from_disk(sample: Path, tmp_path: Path, width: int) -> None:
    """The page with three lines that ask the browser what it drew: pictures loaded, tables there, nothing too wide."""
    requested = sample.with_name(f"asked_{width}.html")
    requested.write_text(sample.read_text().replace("</body>", MEASURE))
    line = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
    line += [f"--window-size={width},900", "--virtual-time-budget=2000", "--dump-dom", requested.as_uri()]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    body = re.search(r"<body[^>]*>", done.stdout)
    assert body, done.stderr[-500:]
    text = dict(re.findall(r'data-(\w+)="([^"]*)"', body[0]))
    page = outline(sample)
    widths = text["pictures"].split(",")
    assert len(widths) == len(page.all("img")) and all(int(item) > 100 for item in widths)
    assert int(text["tables"]) == len(page.all("table")) > 5
    assert text["wide"] == "false"
