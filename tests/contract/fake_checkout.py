"""A tiny ExecuTorch checkout with a script that does what the real one does, as far as it matters.

Real git, real bash, real flatc; only the sources are small.
"""

from __future__ import annotations

import os
from pathlib import Path

from harness import process
from harness.library.checkout import SCRIPT, git_environment

SCHEMA = 'table Program { version: uint; }\nroot_type Program;\nfile_identifier "ET12";\n'

WELL = r"""#!/bin/bash
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
root="$(cd "$here/../.." && pwd)"
out="$here/arduino_lib/ExecuTorch"
rm -rf "$out"; mkdir -p "$out/src/executorch/codegen" "$out/examples" "$out/extras"
cp "$here/library.properties" "$out/"; cp "$here/ExecuTorch.h" "$out/src/"
cp -r "$here/examples/"* "$out/examples/"
cp "$root/runtime/core/"*.h "$root/extension/data_loader/"*.h "$out/src/"
cp "$root/cmake-out/schema/include/executorch/schema/"*.h "$out/src/"
cp -r "$root/third-party/flatbuffers/include/flatbuffers" "$out/src/flatbuffers"
cp -r "$root/third-party/cmsis-nn/Source" "$out/src/cmsis-nn"
cp "$root/devtools/"*.h "$out/src/"
"$PYTHON" -c "print('python runs')"
( cd "$root" && "$PYTHON" -m codegen.gen )
ops="${ROOT_OPS:-aten::add.out}"
if [ "${ALL_OPS:-0}" = 1 ]; then ops="aten::add.out,aten::mul.out"; fi
for op in ${ops//,/ }; do
  grep -q "${op#*::}" "$root/kernels/portable/functions.yaml" && printf 'Kernel(\n  "%s",\n' "$op"
done > "$out/src/executorch/codegen/RegisterCodegenUnboxedKernelsEverything.cpp" || true
find "$out" -path "*test*" -name "*.cpp" -delete
sha=$(git -C "$root" rev-parse HEAD 2>/dev/null || echo unknown)
dirty=$(git -C "$root" status --porcelain "$here" 2>/dev/null | head -1)
cmsis=$(git -C "$root/third-party/cmsis-nn" rev-parse HEAD 2>/dev/null || echo unknown)
printf 'commit:  %s%s\nCMSIS-NN: %s\nop set:  %s\n' \
  "$sha" "${dirty:+ (tree had uncommitted changes)}" "$cmsis" "$ops" > "$out/extras/PROVENANCE.txt"
echo "$sha" > "$out/executorch_pin.txt"
echo "  WARNING: something to pass on"
"""


class FakeCheckout:
    """A checkout in a git repository, with CMSIS-NN in one of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write("runtime/core/error.h", "// error\n")
        self.write("schema/program.fbs", SCHEMA)
        self.write("schema/scalar_type.fbs", "enum ScalarType: byte { BYTE = 0 }\n")
        self.write("codegen/gen.py", "print('generated')\n")
        self.write("kernels/portable/functions.yaml", "- op: add.out\n- op: mul.out\n")
        self.write("kernels/prim_ops/register_prim_ops.cpp", "// none\n")
        self.write("backends/cortex_m/CMakeLists.txt", f'set(CMSIS_NN_VERSION\n  "{"1" * 40}"\n)')
        self.write("extension/data_loader/loader.h", "// loader\n")
        self.write("extension/runner_util/inputs.h", "// inputs\n")
        self.write("devtools/not_listed.h", "// read by a newer script\n")
        self.write("examples/arduino/library.properties", "name=ExecuTorch\nversion=0.2.0\n")
        self.write("examples/arduino/ExecuTorch.h", "#pragma once\n")
        self.write("examples/arduino/examples/Hello/Hello.ino", "// hello\n")
        self.write("examples/arduino/.gitignore", "arduino_lib/\n")
        for module in ("flatbuffers", "flatcc"):
            self.write(f"third-party/{module}/LICENSE", "a license\n")
            self.write(f"third-party/{module}/include/{module}/base.h", "// none\n")
        self.write("third-party/flatcc/src/runtime/builder.c", "// builder\n")
        self.write("third-party/cmsis-nn/LICENSE", "a license\n")
        self.write("third-party/cmsis-nn/Source/nn.c", "// nn\n")
        self.write("third-party/cmsis-nn/Include/nn.h", "// nn\n")
        self.write(".gitignore", "third-party/cmsis-nn/\n/cmake-out/\n")
        self.script(WELL)

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def script(self, text: str) -> None:
        self.write(SCRIPT, text).chmod(0o755)

    def git(self, *arguments: str, below: str = "") -> str:
        who = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
        done = process.run(
            ("git", *who, "-C", str(self.path / below), *arguments),
            timeout_s=60,
            env=git_environment(os.environ),
        )
        assert done.ok, done.stderr
        return done.stdout.strip()

    def commit(self) -> str:
        for below in ("third-party/cmsis-nn", ""):
            if not (self.path / below / ".git").exists():
                self.git("init", "-q", below=below)
            self.git("add", "-A", below=below)
            self.git("commit", "-q", "--allow-empty", "-m", "state", below=below)
        return self.git("rev-parse", "HEAD")

    def state(self) -> dict[str, bytes]:
        """Every file of it, git's own included."""
        return {
            str(path.relative_to(self.path)): path.read_bytes()
            for path in sorted(self.path.rglob("*"))
            if path.is_file()
        }
