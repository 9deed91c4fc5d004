#!/usr/bin/env python3
"""Makes wheels of a release's archives, each with the binary of one platform, so that `uvx sixty-llm` runs it.

The name sixty belongs to another project on PyPI; sixty-llm says what this one is about. A wheel installs two
scripts: sixty, the binary, and sixty-llm, which runs it.
"""

import argparse
import base64
import hashlib
import pathlib
import tarfile
import zipfile

NAME = "sixty_llm"

# The binaries are static: any libc will do. Go's oldest macOS is 12.
PLATFORMS = {
    "linux_amd64": "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
    "linux_arm64": "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
    "darwin_amd64": "macosx_12_0_x86_64",
    "darwin_arm64": "macosx_12_0_arm64",
}

LAUNCHER = b"""#!python
import os, sys
binary = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "sixty")
os.execv(binary, [binary] + sys.argv[1:])
"""

METADATA = """Metadata-Version: 2.1
Name: sixty-llm
Version: {version}
Summary: Says what is wrong with an LLM inference server (vLLM, SGLang) and what to change
Home-page: https://github.com/sixty-dev/sixty
License: Apache-2.0
Keywords: vllm,sglang,llm,inference,monitoring,observability
Description-Content-Type: text/markdown

{readme}"""


def read_member(archive, name):
    """Returns the content of the file of a name in an archive of a release."""
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            if pathlib.PurePosixPath(member.name).name == name and member.isfile():
                return tar.extractfile(member).read()
    raise SystemExit(f"error: {archive} has no {name}")


def write_wheel(out, version, tag, binary, readme, licence):
    """Writes the wheel of one platform and returns its path."""
    info, scripts = f"{NAME}-{version}.dist-info", f"{NAME}-{version}.data/scripts"
    tags = "".join(f"Tag: py3-none-{t}\n" for t in tag.split("."))
    files = {
        f"{scripts}/sixty": binary,
        f"{scripts}/sixty-llm": LAUNCHER,
        f"{info}/METADATA": METADATA.format(version=version, readme=readme).encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: sixty\nRoot-Is-Purelib: false\n{tags}".encode(),
        f"{info}/licenses/LICENSE": licence,
    }
    record = "".join(f"{name},sha256={hash_of(content)},{len(content)}\n" for name, content in files.items())
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    path = out / f"{NAME}-{version}-py3-none-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))  # the same archives give the same bytes
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if name.startswith(scripts) else 0o100644) << 16
            wheel.writestr(entry, content)
    return path


def hash_of(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def python_version(version):
    """Returns a semantic version as PEP 440 writes it: 1.2.0-rc.1 is 1.2.0rc1."""
    return version.replace("-rc.", "rc").replace("-beta.", "b").replace("-alpha.", "a")


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--version", required=True, help="of the release, without v")
    args.add_argument("--archives", required=True, type=pathlib.Path, help="directory of sixty_VERSION_OS_ARCH.tar.gz")
    args.add_argument("--out", required=True, type=pathlib.Path, help="directory of the wheels")
    given = args.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for platform, tag in PLATFORMS.items():
        archive = given.archives / f"sixty_{given.version}_{platform}.tar.gz"
        readme = read_member(archive, "README.md").decode()
        path = write_wheel(given.out, python_version(given.version), tag, read_member(archive, "sixty"), readme, read_member(archive, "LICENSE"))
        print(path)


if __name__ == "__main__":
    main()
