# SPDX-License-Identifier: MIT OR Apache-2.0
"""A small Debian archive, made and signed by a test: the source of `tek lab fetch`, broken as the
test requires."""
import email.utils
import functools
import hashlib
import http.server
import os
import pathlib
import shutil
import subprocess
import threading


def run(*command, **more):
    return subprocess.run(command, check=True, timeout=60, capture_output=True, text=True, **more)


class Keys:
    """A key pair of its own, in a directory."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.root.mkdir(mode=0o700)
        self.public = self.root / "public.gpg"
        self._gpg("--passphrase", "", "--quick-generate-key", "lab@example.org", "ed25519", "sign")
        self.public.write_bytes(
            subprocess.run(self._command("--export"), check=True, timeout=60,
                           capture_output=True).stdout)

    def sign(self, text, signed):
        signed.unlink(missing_ok=True)
        self._gpg("--clearsign", "--output", signed, text)

    def close(self):
        """Ends gpg's agent, which would stay otherwise."""
        command = ["gpgconf", "--homedir", self.root, "--kill", "all"]
        subprocess.run(command, check=False, timeout=60)

    def _gpg(self, *arguments):
        run(*self._command(*arguments))

    def _command(self, *arguments):
        return ("gpg", "--homedir", str(self.root), "--batch", "--quiet", "--pinentry-mode",
                "loopback", *map(str, arguments))


class Archive:
    """An archive below a directory; `publish` writes the index of a suite."""

    def __init__(self, top, keys):
        self.top = pathlib.Path(top)
        self.keys = keys
        self.suites = {}
        (self.top / "pool").mkdir(parents=True)

    def add(self, suite, name, version, files, architecture="amd64", depends="",
            more=""):
        """A package with these files: text by path. Returns the path of its .deb."""
        tree = self.top / "tree"
        shutil.rmtree(tree, ignore_errors=True)
        control = f"Package: {name}\nVersion: {version}\nArchitecture: {architecture}\n"
        control += "Maintainer: The lab's tests <lab@example.org>\nDescription: made by a test\n"
        control += f"Depends: {depends}\n" if depends else ""
        control += more
        for path, text in ({"DEBIAN/control": control} | files).items():
            place = tree / path
            place.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(text, bytes):
                place.write_bytes(text)
            elif text.startswith("-> "):
                place.symlink_to(text[3:])
            else:
                place.write_text(text)
        deb = self.top / "pool" / f"{name}_{version}_{architecture}.deb"
        run("dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, deb)
        shutil.rmtree(tree)
        content = deb.read_bytes()
        entry = control + f"Filename: pool/{deb.name}\nSize: {len(content)}\n"
        entry += f"SHA256: {hashlib.sha256(content).hexdigest()}\n\n"
        self.suites.setdefault((suite, architecture), []).append(entry)
        return deb

    def add_kernel(self, suite, version, flavour="rt-amd64", config="CONFIG_VIRTIO_CONSOLE=y\n"):
        """A kernel in three packages, as Debian has them since Linux 7. Returns its release."""
        release = f"{version}+deb13-{flavour}"
        lib = f"usr/lib/modules/{release}"
        of = f"{version}-1~bpo13+1"
        self.add(suite, f"linux-binary-{release}", of, {f"{lib}/vmlinuz": f"image {release}"})
        self.add(suite, f"linux-base-{release}", of,
                 {f"{lib}/config": config, f"{lib}/modules.builtin": "kernel/a/built-in.ko\n"})
        self.add(suite, f"linux-modules-{release}", of, {f"{lib}/kernel/a/extra.ko": "a module"})
        return release

    def add_old_kernel(self, suite="bookworm", release="6.1.0-9-rt-amd64", version="6.1.9-1"):
        """A kernel in one package, as Debian 12 has it."""
        architecture = "armhf" if release.endswith("armmp") else "amd64"
        self.add(suite, f"linux-image-{release}", version, {
            f"boot/vmlinuz-{release}": f"image {release}",
            f"boot/config-{release}": "CONFIG_VIRTIO_CONSOLE=m\n",
            f"lib/modules/{release}/kernel/a/extra.ko": "a module",
        }, architecture)
        return release

    def publish(self):
        """Writes and signs the indexes of all suites."""
        for suite in {suite for suite, _ in self.suites}:
            sums = ""
            architectures = [of for name, of in self.suites if name == suite]
            for architecture in architectures:
                index = f"main/binary-{architecture}/Packages"
                path = self.top / "dists" / suite / index
                path.parent.mkdir(parents=True, exist_ok=True)
                text = "".join(self.suites[suite, architecture]).encode()
                path.write_bytes(text)
                sums += f" {hashlib.sha256(text).hexdigest()} {len(text)} {index}\n"
            release = self.top / "dists" / suite / "Release"
            release.write_text(
                f"Origin: Debian\nLabel: Debian\nSuite: {suite}\nCodename: {suite}\n"
                f"Date: {email.utils.formatdate(usegmt=True)}\n"
                f"Architectures: {' '.join(architectures)}\nComponents: main\nSHA256:\n{sums}")
            self.keys.sign(release, release.with_name("InRelease"))
            release.unlink()

    def index(self, suite, architecture="amd64"):
        return self.top / "dists" / suite / "main" / f"binary-{architecture}" / "Packages"


class Server:
    """Serves an archive, records requests, and stops in the middle of files on request."""

    def __init__(self, archive):
        self.asked = []
        self.stops_in = None  # in paths with this text
        self.stopped = threading.Event()
        self.goes_on = threading.Event()
        outer = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.path)
                if outer.stops_in and outer.stops_in in self.path:
                    self._half()
                else:
                    super().do_GET()

            def _half(self):
                content = pathlib.Path(self.translate_path(self.path)).read_bytes()
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[:len(content) // 2])
                self.wfile.flush()
                outer.stopped.set()
                outer.goes_on.wait(30)
                try:
                    self.wfile.write(content[len(content) // 2:])
                except OSError:
                    pass  # the other side was killed

            def log_message(self, *_):
                pass

        handler = functools.partial(Handler, directory=str(archive.top))
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.uri = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self):
        self.goes_on.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(30)


def without_proxies():
    """The environment without variables that redirect requests to 127.0.0.1."""
    return {name: value for name, value in os.environ.items()
            if not name.lower().endswith("_proxy") and not name.startswith("TEK_LAB_")}
