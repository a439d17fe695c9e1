"""Every file of a report, the terminal and the page as text, against files of earlier versions.

`REWRITE_GOLDEN=1` writes the files anew.
"""

import os
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from support.small_runs import ROOT, SMALL_SCAN
from support.written_runs import IID, OOD, a_run

import attnlab
from attnlab.config.job_config import compose_config
from attnlab.config.run_identity import run_folder
from attnlab.report.cli import report_main
from attnlab.report.page.cli import page_main

GOLDEN = ROOT / "tests/golden/reports"
FILES = ("table.md", "table.csv", "seeds.csv", "table.tex", "report.json")
CLEVR = "experiment=park2024/table2_sort_of_clevr_small"
COUNTS = {"test/ood": 100, "test/ood/length_1": 60, "test/ood/length_2": 40, "test/iid": 50}


def write_clevr() -> list[str]:
    """An experiment with published numbers and a threshold: failed, diverged and missing runs."""
    words = [CLEVR, "paths.runs=runs"]
    unary = {"linear": [0.49, 0.5, 0.95], "linear_l2_ortho": [0.97, 0.98, None], "vanilla": [None, None]}
    for model, values in unary.items():
        config = compose_config([*words, f"model={model}", "seed=0"])
        config.pop("report")
        for seed, value in enumerate(values):
            changed, state = config | {"seed": seed}, "failed" if value is None else "finished"
            status = {"reason": "NonFiniteLoss: step 12"} if model == "vanilla" else {"reason": "OutOfMemoryError: _"}
            metrics = {
                f"test_paper_rule/{name}/accuracy": share for name, share in (("unary", value), ("ternary", 0.5))
            }
            metrics["test_paper_rule/binary/accuracy"] = 0.25 + 0.1 * seed
            known = {"metrics": metrics, "counts": {"test_paper_rule": 2000}} if value is not None else {}
            run = a_run(run_folder(changed), changed, state=state, status=status, **known)
            rows = [f"{step},val/unary/accuracy,{value if step > 9000 else 0.49}" for step in range(2000, 20001, 2000)]
            (run / "metrics.csv").write_text("\n".join(["step,name,value", *rows]) + "\n")
    more = ["model=linear,linear_l2_ortho,vanilla", "seed=0,1,2", "report.success.at_least=61"]
    return [*words, *more, "figures=time_to_success"]


def write_lengths() -> list[str]:
    """Run folders on two data sets, with lengths and shortcuts."""
    for model, right in (("linear", 0.2), ("linear_l2", 0.3)):
        config = compose_config([*SMALL_SCAN, f"model={model}"])
        for data, seed in ((1, 0), (1, 1), (2, 0), (2, 2)):
            changed = config | {"seed": seed, "task": config["task"] | {"data_seed": data}}
            whole = right + 0.01 * seed + 0.1 * data
            metrics = {IID: 0.99, OOD: whole, "test/ood/length_2/sequence_accuracy": 0.0}
            metrics["test/ood/length_1/sequence_accuracy"] = whole / 0.6
            scores = {OOD: {"most frequent answer": 0.25, "copying the input": 0.1}}
            more: dict[str, Any] = {"metrics": metrics, "counts": COUNTS, "shortcuts": scores}
            a_run(Path(f"runs/scan/{model}/data{data}/seed{seed}"), changed, data={"hash": str(data)}, **more)
    columns = f"columns={IID},{OOD},parameters"
    return ["runs=runs", columns, "figures=bars"]


def steady(text: str) -> str:
    """Text without what differs from day to day: times, commits and versions."""
    text = text.replace(attnlab.__version__, "VERSION")
    text = re.sub(r",[0-9a-f]{10}/", ",HASH/", text)
    text = re.sub(r"; this is \w+|\"made\": \"[^\"]*\"", "", text)
    return re.sub(r"\d{4}-\d\d-\d\d[T ][\d:]+( ?[+A-Z]\w+)?", "TIME", text)


def of_page(html: str) -> str:
    """The text of a page, element by element."""
    html = re.sub(r"<style>.*?</style>|base64,[^\"]*", "", html, flags=re.DOTALL)
    html = re.sub(r"<(?!/?(?:tr|p|li|h\d|dt|dd)\b)[^>]*>", " ", html)
    lines = re.split(r"<[^>]*>", unescape(html))
    return "\n".join(filter(None, (" ".join(line.split()) for line in lines))) + "\n"


@pytest.mark.parametrize("write", [write_clevr, write_lengths])
def test_a_report_reads_as_before(
    write: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)
    words, out = write(), Path("out")
    assert report_main([*words, "out=out"]) == 0
    texts = {"terminal.txt": capsys.readouterr().out} | {name: (out / name).read_text() for name in FILES}
    assert page_main(["measured=out", "reports=out", "out=page.html"]) == 0
    texts["page.txt"] = of_page(Path("page.html").read_text())
    golden = GOLDEN / write.__name__.removeprefix("write_")
    for name, text in texts.items():
        if os.environ.get("REWRITE_GOLDEN"):
            golden.mkdir(parents=True, exist_ok=True)
            (golden / name).write_text(steady(text))
        assert steady(text) == (golden / name).read_text(), name
