"""Official files in folders and archives: search, messages for missing files, limits against hostile archives."""

import gzip
import io
import os
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from attnlab.data.files.fetch import DataError, Folders, OfficialFile
from attnlab.data.files.folder_or_archive import (
    LARGEST,
    DataSource,
    FileTree,
    Folder,
    Header,
    Tar,
    Zip,
    bad_line,
    find_trees,
    members,
    natural,
    open_archive,
    text_lines,
)

FILES = {"a.txt": b"one\r\ntwo\n", "deep/b.bin": bytes(range(256)) * 300, "deep/er/c.txt": b""}
BOMB = 3 * 2**20
"""bytes above LARGEST, as far as these tests set it down"""
WAYS = ["folder", "folder.gz", "tar", "tar.gz", "tar.bz2", "tar.xz", "zip", "zip deflated"]


def add(tar: tarfile.TarFile, name: str, content: bytes = b"x", kind: bytes = tarfile.REGTYPE, **more: object) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.type = len(content), kind
    for key, value in more.items():
        setattr(member, key, value)
    tar.addfile(member, io.BytesIO(content))


def make(folder: Path, way: str, files: dict[str, bytes] = FILES, top: str = "top") -> Path:
    """The files in one of the WAYS."""
    kind, _, how = way.partition(".")
    path = folder / f"made_{way.replace(' ', '_')}"
    if kind == "folder":
        for name, content in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / (name + f".{how}" * bool(how))).write_bytes(gzip.compress(content) if how else content)
    elif kind == "tar":
        with tarfile.open(path, f"w:{how}") as tar:
            for name, content in files.items():
                add(tar, f"{top}/{name}", content)
    else:
        squeeze = zipfile.ZIP_DEFLATED if way.endswith("deflated") else zipfile.ZIP_STORED
        with zipfile.ZipFile(path, "w", squeeze) as archive:
            for name, content in files.items():
                archive.writestr(f"{top}/{name}", content)
    return path


def opened(path: Path) -> FileTree:
    tree = next(find_trees(path.parent, [path.name]), None)
    assert tree is not None
    return tree


def everything(path: Path) -> dict[str, bytes]:
    return {name: file.read() for name, _, file in opened(path).walk(lambda name: not name.endswith(".gz"))}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_the_same_files(tmp_path: Path, way: str) -> None:
    path = make(tmp_path, way)
    assert everything(path) == FILES
    wanted = [name for name, where, _ in opened(path).walk(lambda name: name.endswith(".txt")) if str(path) in where]
    assert sorted(wanted) == ["a.txt", "deep/er/c.txt"]
    assert opened(path).read(["deep/b.bin", "absent"]) == {"deep/b.bin": FILES["deep/b.bin"]}


@pytest.mark.parametrize("top", ["SCAN", "SCAN-master", "./dotted"])
@pytest.mark.parametrize("way", ["tar.gz", "zip"])
def test_the_top_folder_of_an_archive_may_have_any_name(tmp_path: Path, way: str, top: str) -> None:
    assert everything(make(tmp_path, way, top=top)) == FILES


def test_a_folder_is_read_in_order_of_names(tmp_path: Path) -> None:
    path = make(tmp_path, "folder", dict.fromkeys(["z/1", "a/2", "b", "a/1", "c"], b""))
    assert list(everything(path)) == ["b", "c", "a/1", "a/2", "z/1"]


def test_a_plain_file_beside_its_gz_is_read_once_and_plain(tmp_path: Path) -> None:
    plain = make(tmp_path, "folder", {"deep/a.txt": b"plain", "a.txt": b"plain"})
    for name in ("deep/a.txt.gz", "a.txt.gz"):
        (plain / name).write_bytes(gzip.compress(b"packed"))
    collected = [(name, file.read()) for name, _, file in Folder(plain).walk(lambda name: name.endswith("a.txt"))]
    assert collected == [("a.txt", b"plain"), ("deep/a.txt", b"plain")]


def test_a_gz_is_itself_where_that_is_asked_for(tmp_path: Path) -> None:
    path = make(tmp_path, "folder.gz", {"a.tar": b"x"})
    assert zlib.decompress(Folder(path).read(["a.tar.gz"])["a.tar.gz"], wbits=31) == b"x"


def test_an_archive_is_known_by_what_it_holds(tmp_path: Path) -> None:
    for way, kind in (("tar.gz", Tar), ("zip", Zip)):
        path = make(tmp_path, way).rename(tmp_path / f"{way}.anything")
        assert type(open_archive(path)) is kind


@pytest.mark.parametrize("way", ["tar", "tar.gz", "tar.bz2", "tar.xz", "zip", "zip deflated", "folder.gz"])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.6, 0.97])
def test_a_cut_archive_is_named(tmp_path: Path, way: str, share: float) -> None:
    path = make(tmp_path, way, FILES | {"last.bin": os.urandom(100_000)})
    file = path / "last.bin.gz" if way == "folder.gz" else path
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    if way == "folder.gz" and not share:
        # nothing at all is what gzip makes of nothing
        assert everything(path)["last.bin"] == b""
        return
    with pytest.raises(DataError, match=re.escape(str(file)) + r".* is cut short, damaged or no archive .*whole copy"):
        everything(path)


def test_a_tar_cut_between_two_members_is_named(tmp_path: Path) -> None:
    path = make(tmp_path, "tar", {"a": b"x" * 512, "b": b"y" * 512})
    path.write_bytes(path.read_bytes()[:1024])
    assert Tar(path).read(["a"]) == {"a": b"x" * 512}
    with pytest.raises(DataError, match="is cut short"):
        everything(path)


@pytest.mark.parametrize(("way", "offset"), [("tar", 512 + 3072), ("tar.gz", 4000), ("tar.xz", 4000), ("zip", 4000)])
def test_a_damaged_archive_is_named(tmp_path: Path, way: str, offset: int) -> None:
    path = make(tmp_path, way, {"a": os.urandom(3000), "b": os.urandom(3000), "c": os.urandom(3000)})
    content = bytearray(path.read_bytes())
    # the header of the second member, some compressed bytes, or some that are checksummed
    content[offset : offset + 100] = bytes(byte ^ 0x55 for byte in content[offset : offset + 100])
    path.write_bytes(content)
    with pytest.raises(DataError, match="damaged"):
        everything(path)


@pytest.mark.parametrize("content", [b"", b"no archive at all", b"PK\x03\x04 nearly a zip", b"\x1f\x8b nearly a gzip"])
def test_what_is_no_archive_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.tar.gz").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.tar\.gz is cut short, damaged or no archive"):
        everything(tmp_path / "a.tar.gz")


def test_errors_while_reading_lines_name_the_file(tmp_path: Path) -> None:
    path = make(tmp_path, "folder.gz", {"a.txt": b"".join(b"%d\n" % (n * n) for n in range(100_000))})
    (path / "a.txt.gz").write_bytes((path / "a.txt.gz").read_bytes()[:-5000])
    lines = 0
    with pytest.raises(DataError, match=r"a\.txt\.gz is cut short"):
        for _, where, file in Folder(path).walk(lambda name: name == "a.txt"):
            for _ in text_lines(file, where):
                lines += 1
    assert lines > 1000


KINDS = {
    "symlink": tarfile.SYMTYPE,
    "hard link": tarfile.LNKTYPE,
    "pipe": tarfile.FIFOTYPE,
    "block device": tarfile.BLKTYPE,
    "character device": tarfile.CHRTYPE,
}


@pytest.mark.parametrize("kind", KINDS)
def test_links_and_devices_are_refused_under_wanted_names_only(tmp_path: Path, kind: str) -> None:
    with tarfile.open(tmp_path / "hostile", "w") as tar:
        add(tar, "top/a", b"", KINDS[kind], linkname="/etc/passwd")
        add(tar, "top/b", b"good")
    assert opened(tmp_path / "hostile").read(["b"]) == {"b": b"good"}
    with pytest.raises(DataError, match=r"hostile: top/a is a link, a device or a sparse file"):
        opened(tmp_path / "hostile").read(["a", "b"])


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnlab.data.files.folder_or_archive.LARGEST", BOMB - 1)
    monkeypatch.setattr("attnlab.data.files.folder_or_archive.LARGEST_WHOLE", BOMB // 2)


def claiming(folder: Path) -> Path:
    """A tar of 1,536 bytes with a member that claims more than is allowed."""
    member = tarfile.TarInfo("top/a")
    member.size = LARGEST + 1
    (folder / "hostile").write_bytes(member.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    return folder / "hostile"


def zip_that_claims(folder: Path, claim: int) -> Path:
    """A zip whose member expands to BOMB bytes and claims another number."""
    path = make(folder, "zip deflated", {"a": bytes(BOMB)})
    content = path.read_bytes()
    assert content.count(struct.pack("<L", BOMB)) == 2
    path.write_bytes(content.replace(struct.pack("<L", BOMB), struct.pack("<L", claim)))
    return path


def test_a_member_that_claims_too_much_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"hostile: top/a claims {LARGEST + 1} bytes, above {LARGEST}"):
        Tar(claiming(tmp_path)).read(["a"])


@pytest.mark.parametrize("way", ["tar.gz", "zip deflated"])
@pytest.mark.usefixtures("small_limits")
def test_a_bomb_that_says_so_is_refused(tmp_path: Path, way: str) -> None:
    path = make(tmp_path, way, {"a": bytes(BOMB)})
    assert path.stat().st_size < 20_000
    with pytest.raises(DataError, match=rf"top/a claims {BOMB} bytes"):
        opened(path).read(["a"])


@pytest.mark.usefixtures("small_limits")
def test_a_gz_that_expands_without_end_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path, "folder.gz", {"a": bytes(BOMB)})
    read = 0
    with pytest.raises(DataError, match=r"a\.gz expands to more than"):
        for _, _, file in Folder(path).walk(lambda name: name == "a"):
            while part := file.read(100_000):
                read += len(part)
    assert read < BOMB


@pytest.mark.parametrize("claim", [10, BOMB // 3])
@pytest.mark.usefixtures("small_limits")
def test_a_zip_that_lies_about_its_size_is_refused(tmp_path: Path, claim: int) -> None:
    with pytest.raises(DataError, match="damaged"):
        opened(zip_that_claims(tmp_path, claim)).read(["a"])


@pytest.mark.usefixtures("small_limits")
def test_a_whole_file_in_memory_has_a_limit_of_its_own(tmp_path: Path) -> None:
    path = make(tmp_path, "tar.gz", {"a": bytes(BOMB - 2)})
    with pytest.raises(DataError, match=rf"top/a has more than {BOMB // 2} bytes"):
        opened(path).read(["a"])
    assert len(everything(path)["a"]) == BOMB - 2


def gnu_sparse(folder: Path) -> Path:
    """A file of 1 GB in a tar of some kilobytes, without any data."""
    member = tarfile.TarInfo("top/a")
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[156:157] = tarfile.GNUTYPE_SPARSE
    header[483:495] = b"%011o " % 2**30
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header)
    (folder / "hostile").write_bytes(bytes(header) + bytes(1024))
    return folder / "hostile"


def pax_sparse(folder: Path) -> Path:
    with tarfile.open(folder / "hostile", "w", format=tarfile.PAX_FORMAT) as tar:
        add(tar, "top/a", b"1\n0\n0\n" + bytes(506), pax_headers={
            "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "top/a",
            "GNU.sparse.realsize": str(2**30),
        })  # fmt: skip
    return folder / "hostile"


@pytest.mark.parametrize("hostile", [gnu_sparse, pax_sparse])
def test_sparse_members_are_refused(tmp_path: Path, hostile: Callable[[Path], Path]) -> None:
    with pytest.raises(DataError, match=r"hostile: top/a is a link, a device or a sparse file"):
        Tar(hostile(tmp_path)).read(["a"])


@pytest.mark.parametrize("size", [-512, -1024, -(2**40)])
@pytest.mark.parametrize("where", ["header", "pax"])
def test_a_negative_size_ends_in_an_error_not_in_a_circle(tmp_path: Path, where: str, size: int) -> None:
    plain, member = tarfile.TarInfo("top/a"), tarfile.TarInfo("top/a")
    if where == "header":
        member.size = size
        content = plain.tobuf() + member.tobuf(tarfile.GNU_FORMAT)
    else:
        member.pax_headers = {"size": str(size)}
        content = plain.tobuf() + member.tobuf(tarfile.PAX_FORMAT)
    (tmp_path / "hostile").write_bytes(content + bytes(1024))
    with pytest.raises(DataError, match="hostile is cut short, damaged"):
        Tar(tmp_path / "hostile").read(["absent"])


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_a_huge_note_on_a_member_is_not_read(tmp_path: Path, kind: bytes) -> None:
    note = tarfile.TarInfo("note")
    note.type, note.size = kind, 2**33
    for content in (note.tobuf(tarfile.GNU_FORMAT), tarfile.TarInfo("top/a").tobuf() + note.tobuf(tarfile.GNU_FORMAT)):
        (tmp_path / "hostile").write_bytes(content + bytes(1024))
        with pytest.raises(DataError, match="hostile is cut short, damaged"):
            Tar(tmp_path / "hostile").read(["absent"])


def test_long_names_are_read(tmp_path: Path) -> None:
    name = "/".join(["folder" * 10] * 10)
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with tarfile.open(tmp_path / "long", "w", format=form) as tar:
            add(tar, f"top/{name}", b"found")
        assert opened(tmp_path / "long").read([name]) == {name: b"found"}


def test_a_zip_with_a_password_is_named(tmp_path: Path) -> None:
    path = make(tmp_path, "zip", {"a": b"secret"})
    content = bytearray(path.read_bytes())
    # the bit that says so: in the member's own header, and in the list at the end
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"damaged or no archive .*password"):
        everything(path)


def test_many_members_do_not_stay_in_memory(tmp_path: Path) -> None:
    with tarfile.open(make(tmp_path, "tar", {str(n): b"" for n in range(50)}), tarinfo=Header) as tar:
        assert [len(tar.members) for _ in members(tar)] == [1] * 50


def test_a_pipe_in_a_folder_is_refused_not_waited_for(tmp_path: Path) -> None:
    path = make(tmp_path, "folder")
    os.mkfifo(path / "pipe")
    with pytest.raises(DataError, match=r"pipe is no file"):
        everything(path)
    assert Folder(path).read(["a.txt"]) == {"a.txt": FILES["a.txt"]}


def test_a_broken_symlink_in_a_folder_is_named(tmp_path: Path) -> None:
    path = make(tmp_path, "folder")
    (path / "link").symlink_to(path / "nowhere")
    with pytest.raises(DataError, match=r"link is no file"):
        everything(path)


def test_files_and_folders_that_cannot_be_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path, "folder")

    def refuse(*args: object, **more: object) -> None:
        raise PermissionError(13, "Permission denied", str(path / "deep"))

    with monkeypatch.context() as patch, pytest.raises(DataError, match=r"deep cannot be read \(Permission denied\)"):
        patch.setattr(os, "scandir", refuse)
        everything(path)
    with monkeypatch.context() as patch, pytest.raises(DataError, match=r"a\.txt cannot be read \(Permission denied\)"):
        patch.setattr("attnlab.data.files.folder_or_archive.open", refuse, raising=False)
        everything(path)


@pytest.mark.parametrize("way", ["folder", "tar.gz", "zip"])
def test_identity_is_the_content(tmp_path: Path, way: str) -> None:
    path = make(tmp_path, way)

    def identity() -> str:
        return opened(path).identity(lambda name: name == "deep/b.bin", tmp_path / "cache")

    before = identity()
    file = path / "deep/b.bin" if way == "folder" else path
    status, content = file.stat(), file.read_bytes()
    os.utime(file, ns=(0, 0))
    assert identity() == before
    # one bit, with the size and the times as before
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert identity() != before
    file.write_bytes(content)
    if way == "folder":
        (path / "a.txt").write_bytes(b"another")
    assert identity() == before


SOURCE = DataSource(
    title="the set",
    paths=("set.tar.gz", "set", "other/set"),
    archive=OfficialFile(path="set.tar.gz", url="http://127.0.0.1:9/set.tar.gz", size=12_345_678),
    offers=("a clone of https://example.org/set",),
)


def test_missing_says_what_from_where_how_large_and_where_to_put_it(tmp_path: Path) -> None:
    text = SOURCE.missing(Folders(data=tmp_path / "data", cache=tmp_path / "cache"))
    for part in (
        "the set: missing",
        "set.tar.gz, set, other/set",
        "http://127.0.0.1:9/set.tar.gz (12.3 MB)",
        "; or a clone of https://example.org/set",
        str(tmp_path / "data/set.tar.gz"),
        "ATTNLAB_DATA",
    ):
        assert part in text


def test_without_a_download_opening_says_the_same(tmp_path: Path) -> None:
    folders = Folders(data=tmp_path / "data", cache=tmp_path / "cache")
    by_hand = DataSource(title="the set", paths=("set",), offers=("its authors",))
    assert by_hand.find(folders) is None
    with pytest.raises(DataError) as error:
        by_hand.open(folders)
    assert str(error.value) == by_hand.missing(folders)
    assert "its authors" in str(error.value)


def test_a_download_that_fails_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(DataError, match=r"set\.tar\.gz is missing and could not be downloaded"):
        SOURCE.open(Folders(data=tmp_path / "data", cache=tmp_path / "cache"))


def test_the_first_place_that_is_there_is_read(tmp_path: Path) -> None:
    folders = Folders(data=tmp_path / "data", cache=tmp_path / "cache")
    downloads = folders.cache / "downloads"
    for folder, name in ((downloads, "set.tar.gz"), (folders.data / "other", "set"), (folders.data, "set")):
        folder.mkdir(parents=True, exist_ok=True)
        make(folder, "tar.gz" if folder == downloads else "folder", {"a": str(folder).encode()}).rename(folder / name)
        result = SOURCE.find(folders)
        assert result is not None
        assert result.path == folder / name
        assert SOURCE.open(folders).read(["a"]) == {"a": str(folder).encode()}


def test_lines_are_numbered_and_lose_their_ends() -> None:
    text = io.BytesIO("ä\r\n\r\n b \nlast".encode())
    assert list(text_lines(text, "file")) == [(1, "ä"), (2, ""), (3, " b "), (4, "last")]


def test_a_line_that_is_no_text_is_named() -> None:
    with pytest.raises(DataError, match=r"file, line 2: not utf-8: .* at byte 1\. .*official file"):
        list(text_lines(io.BytesIO(b"good\nx\xff\n"), "file"))
    assert str(bad_line("file", 7, "no number")).startswith("file, line 7: no number. ")


def test_natural_order() -> None:
    names = ["s_10", "s_9", "²", "9", "10", "a"]
    assert sorted(names, key=natural) == ["9", "10", "a", "s_9", "s_10", "²"]
