#!/usr/bin/env bash
# sentence-transformers 6.2.0 (PyPI) cannot be installed with its extra `onnx`.
#
# Expected: `pip install "sentence-transformers[onnx]==6.2.0"` installs the library with its ONNX backend.
# Observed: the library needs transformers 5 or newer, and optimum-onnx 0.1.0, which the extra names, needs transformers below 4.58. pip
# finds no solution; without `==6.2.0` it installs sentence-transformers 5.7.0 without a message about the older version.
#
# Output seen:
#   sentence-transformers[onnx]==6.2.0: ResolutionImpossible
#   sentence-transformers[onnx]: sentence-transformers 5.7.0
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
pip=("$folder/venv/bin/pip" install --quiet --disable-pip-version-check --dry-run --ignore-installed)

"${pip[@]}" "sentence-transformers[onnx]==6.2.0" "optimum-onnx==0.1.0" >"$folder/pinned" 2>&1 || true
pinned=$(grep -o ResolutionImpossible "$folder/pinned" || echo installed)
echo "sentence-transformers[onnx]==6.2.0: $pinned"
"${pip[@]}" --report "$folder/report.json" "sentence-transformers[onnx]<=6.2.0" "optimum-onnx==0.1.0" >/dev/null 2>&1
version=$(python3 - "$folder/report.json" <<'PYTHON'
import json, sys

packages = (item["metadata"] for item in json.load(open(sys.argv[1]))["install"])
print(next(package["version"] for package in packages if package["name"].lower() == "sentence-transformers"))
PYTHON
)
echo "sentence-transformers[onnx]: sentence-transformers $version"
[ "$pinned" = ResolutionImpossible ] && [ "$version" = 5.7.0 ]
