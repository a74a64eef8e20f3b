"""Downloads from a test server; archives and files on this machine."""

import gzip
import hashlib
import http.server
import io
import os
import tarfile
import threading

import pytest

import minitorch_attn as mt
from minitorch_attn.data import read_text, read_tsv
from minitorch_attn.data.download import cache_folder, download, local_path, shown_path, single_file
from minitorch_attn.errors import ArgumentError, DataError

CONTENT = bytes(range(256)) * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITORCH_ATTN_CACHE", str(tmp_path / "cache"))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache"


@pytest.fixture
def server():
    """A server on this machine, and how often it was asked."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            server.asked += 1
            if "missing" in self.path:
                self.send_error(404)
                return
            body = server.content
            self.send_response(200)
            self.send_header("Content-Length", str(len(body) * (2 if "cut" in self.path else 1)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked, server.content = 0, CONTENT
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_download_is_kept(server, cache):
    path = download(f"{server.url}/a%20file.bin?x=1", SHA256.upper())
    with open(path, "rb") as file:
        assert file.read() == CONTENT
    assert os.path.dirname(path) == str(cache) and path.endswith("a_file.bin")
    assert download(f"{server.url}/a%20file.bin?x=1", SHA256) == path and server.asked == 1
    with open(path, "wb") as file:
        file.write(b"damaged")
    download(f"{server.url}/a%20file.bin?x=1", SHA256)
    assert server.asked == 2 and os.path.getsize(path) == len(CONTENT)


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("/missing", {}, "could not be downloaded.*404|Not Found"),
        ("/cut", {}, "checksum does not match|could not be downloaded"),
        ("/a", {"sha256": "0" * 64}, "checksum does not match"),
        ("/a", {"max_bytes": 1000}, "too large"),
    ],
)
def test_failures_leave_nothing(path, options, message, server, cache):
    server.content = CONTENT[:-1] if path == "/cut" else CONTENT
    with pytest.raises(DataError, match=message):
        download(server.url + path, **({"sha256": SHA256} | options))
    assert os.listdir(cache) == []


def test_offline(server):
    url = server.url.rsplit(":", 1)[0] + ":9/a"  # nobody answers there
    with pytest.raises(DataError, match="pass its path instead"):
        download(url, SHA256, timeout=2)


def test_wrong_addresses_and_checksums():
    for url in ("file:///etc/passwd", "ftp://x/y", "http://", "x"):
        with pytest.raises(ArgumentError, match="must be an http or https address"):
            download(url, SHA256)
    for sha256 in ("", "abc", "z" * 64, None):
        with pytest.raises(ArgumentError, match="checksum"):
            download("https://example.invalid/a", sha256)
    with pytest.raises(ArgumentError, match="checksum of the download is missing"):
        local_path("https://example.invalid/a")


def test_the_systems_cache_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("MINITORCH_ATTN_CACHE")
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    found = cache_folder()
    assert found.startswith(str(tmp_path)) and os.path.basename(found) == "minitorch_attn"


def test_local_files_and_folders(tmp_path):
    path = tmp_path / "plain.txt"
    path.write_bytes(CONTENT)
    assert local_path(path) == str(path) == local_path(path, SHA256)
    assert local_path(tmp_path) == str(tmp_path)
    with pytest.raises(DataError, match="checksum does not match"):
        local_path(path, "0" * 64)
    with pytest.raises(DataError, match="nowhere could not be read"):
        local_path(tmp_path / "nowhere")


def test_archives_are_unpacked_once(server, tmp_path, cache):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo("folder/x")
        info.size = 3
        archive.addfile(info, io.BytesIO(b"abc"))
    server.content = buffer.getvalue()
    sha256 = hashlib.sha256(server.content).hexdigest()
    folder = local_path(f"{server.url}/a.tar.gz", sha256)
    with open(os.path.join(folder, "folder", "x"), "rb") as file:
        assert file.read() == b"abc"
    path = tmp_path / "here.tgz"
    path.write_bytes(server.content)
    assert local_path(path) == folder  # the same content, so already there
    assert os.listdir(cache / "unpacked") == [sha256]


def test_texts_from_the_network(server):
    for content in ("näher\tnearer\n".encode(), gzip.compress("näher\tnearer\n".encode())):
        server.content = content
        sha256 = hashlib.sha256(content).hexdigest()
        assert read_text(f"{server.url}/a.tsv", sha256=sha256) == "näher\tnearer\n"
        assert read_tsv(f"{server.url}/a.tsv", sha256=sha256) == [("näher", "nearer")]
    with pytest.raises(ArgumentError, match="checksum of the download is missing"):
        read_text(f"{server.url}/a.tsv")


@pytest.mark.parametrize(
    "url",
    ["https://[::1", "http://" + "a" * 300, "https://a.invalid:99999999/x", "http://\ud800/x",
     "https://ann:secret@[::1/x", "https://ann:sec/secret@b.invalid/x",
     "https://ann:secret@b.invalid/x.zip"],
)  # fmt: skip
@pytest.mark.parametrize("read", [download, local_path, single_file])
def test_addresses_that_are_none_and_passwords(url, read):
    with pytest.raises(ArgumentError, match="url|URL") as caught:
        read(url, SHA256)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("read", ["read_text", "read_tsv", "mnist", "cifar10", "local_path"])
@pytest.mark.parametrize(
    "url", ["https:/ann:secret@b.invalid/x", "https:[//ann:a:secret@b.invalid"]
)
def test_a_mistyped_url_is_shown_without_its_password(read, url):
    with pytest.raises(DataError, match=r":\.\.\.@b.invalid") as caught:
        getattr(mt.data, read)(url)
    assert "secret" not in str(caught.value)
    assert shown_path("@" + "a:" * 100_000)  # a search that backtracks would take minutes


def test_two_urls_pasted_together_are_shown_without_a_password(cache):
    url = "https://a.invalid/x.ziphttps://ann:secret@b.invalid/x.zip"
    for sha256 in (SHA256, None):  # it cannot be downloaded, or has no checksum
        with pytest.raises((DataError, ArgumentError), match=r"\.\.\.@b.invalid") as caught:
            local_path(url, sha256)
        assert "secret" not in str(caught.value)


def test_other_letters_in_a_path(server, cache):
    with open(download(f"{server.url}/é/ü 1.bin", SHA256), "rb") as file:
        assert file.read() == CONTENT


def test_a_null_character_in_a_path():
    with pytest.raises(DataError, match="could not be read"):
        local_path("a\0b")
