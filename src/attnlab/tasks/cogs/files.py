"""COGS's official files: the table of them, their words and kinds of generalisation, and the parser of their lines."""

import io
from collections.abc import Iterator
from typing import NamedTuple

from attnlab.config.message_text import hint, listed
from attnlab.config.nearest_word import nearest
from attnlab.config.plain_yaml import table_beside
from attnlab.data.files.fetch import DataError
from attnlab.data.files.folder_or_archive import bad_line, text_lines
from attnlab.data.files.official_files import FileContent, read_table
from attnlab.data.files.progress import track
from attnlab.data.vocabulary import Vocabulary

OFFICIAL = read_table(__file__)["COGS"]
FILES = {"train": "train.tsv", "val": "dev.tsv", "test/iid": "test.tsv", "test/gen": "gen.tsv"}
"""the official file of each subset"""
WORDS = Vocabulary([word for text in table_beside(__file__, "vocabulary.yaml").values() for word in text.split(" ")])
"""of sentences and logical forms together, as in Csordas et al. 2021"""
MAX_INPUT, MAX_OUTPUT = 61, 480
"""words of the longest sentence, tokens of the longest logical form"""

LEXICAL = (
    "subj_to_obj_common",
    "subj_to_obj_proper",
    "obj_to_subj_common",
    "obj_to_subj_proper",
    "prim_to_subj_common",
    "prim_to_subj_proper",
    "prim_to_obj_common",
    "prim_to_obj_proper",
    "prim_to_inf_arg",
    "active_to_passive",
    "passive_to_active",
    "obj_omitted_transitive_to_transitive",
    "unacc_to_transitive",
    "do_dative_to_pp_dative",
    "pp_dative_to_do_dative",
    "only_seen_as_transitive_subj_as_unacc_subj",
    "only_seen_as_unacc_subj_as_obj_omitted_transitive_subj",
    "only_seen_as_unacc_subj_as_unerg_subj",
)
"""kinds of gen.tsv that have a known word in a new place, in the order of the paper's sections"""
STRUCTURAL = ("obj_pp_to_subj_pp", "cp_recursion", "pp_recursion")
"""kinds of gen.tsv that have a new structure"""
KINDS = (*LEXICAL, *STRUCTURAL)


class Row(NamedTuple):
    """Ids of a sentence and of its logical form, without framing, and the third column."""

    sentence: list[int]
    form: list[int]
    kind: str


def read_rows(content: FileContent) -> Iterator[Row]:
    """The rows of a file; kinds are checked in gen.tsv alone.

    Raises:
        DataError: the first line with other than three columns, an unknown word, more words than any official line, or
            a kind that gen.tsv does not have; a last line without its end; or an empty file.
    """
    lines = list(text_lines(io.BytesIO(content.data), content.where))
    if not lines:
        raise DataError(f"{content.where} is empty. Put the official file in its place ({content.official.url}).")
    if not content.data.endswith(b"\n"):
        raise bad_line(content.where, len(lines), "the file ends within this line, it is cut short")
    for number, line in track(lines, f"reading {content.where}", len(lines)):
        try:
            yield _parse_line(line, content.where.endswith(FILES["test/gen"]))
        except (ValueError, DataError) as error:
            raise bad_line(content.where, number, str(error)) from None


def _parse_line(line: str, has_kind: bool) -> Row:
    columns = line.split("\t")
    if len(columns) != 3:
        layout = "'<sentence> <logical form> <kind>' with tabs between"
        raise ValueError(f"3 columns expected, {layout}; found {len(columns)} in {line[:80]!r}")
    sentence, form, kind = columns
    if has_kind and kind not in KINDS:
        raise ValueError(f"kind {kind!r}; expected one of {listed(KINDS, 4)}{hint(nearest(kind, KINDS))}")
    return Row(_encode(sentence, MAX_INPUT), _encode(form, MAX_OUTPUT), kind)


def _encode(text: str, longest: int) -> list[int]:
    words = text.split(" ")
    if len(words) > longest:
        raise ValueError(f"{len(words)} words, more than the {longest} of the longest official line")
    return WORDS.encode(words)
