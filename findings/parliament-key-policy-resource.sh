#!/usr/bin/env bash
# parliament 1.6.4 (PyPI) reports the resource "*" of a KMS key policy, which is the key itself, and does not know the condition
# keys of NitroTPM.
#
# Expected: no finding for a key policy in AWS's own form. In a key policy `"Resource": "*"` means the key to which the policy is
# attached; AWS's examples use it. `kms:RecipientAttestation:NitroTPMPCR<n>` is known like `kms:RecipientAttestation:PCR<n>`.
# Observed: RESOURCE_STAR for each statement, so a pipeline that fails on findings refuses every key policy; and
# UNKNOWN_CONDITION_FOR_ACTION for a NitroTPM register, the same finding as for a misspelled key.
#
# Output seen:
#   PCR0: RESOURCE_STAR
#   NitroTPMPCR4: RESOURCE_STAR, UNKNOWN_CONDITION_FOR_ACTION
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet parliament==1.6.4

cat > "$folder/lint.py" <<'PYTHON'
import json
import sys
from parliament import analyze_policy_string

def lint(register):
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": "arn:aws:iam::111122223333:role/parent"},
        "Action": "kms:Decrypt",
        "Resource": "*",
        "Condition": {"StringEqualsIgnoreCase": {f"kms:RecipientAttestation:{register}": "ab" * 48}},
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    issues = sorted({finding.issue for finding in analyze_policy_string(policy).findings})
    print(f"{register}:", ", ".join(issues) or "nothing")
    return issues

seen = lint("PCR0"), lint("NitroTPMPCR4")
sys.exit(seen != (["RESOURCE_STAR"], ["RESOURCE_STAR", "UNKNOWN_CONDITION_FOR_ACTION"]))
PYTHON
"$folder/venv/bin/python" "$folder/lint.py" 2>/dev/null
