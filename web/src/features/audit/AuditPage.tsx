import { Command } from "../../ui/Command";
import { Outline } from "../../ui/Outline";

const COMMAND = "clearseal verify receipt receipt-bundle.json --policy policy.json";

export function AuditPage() {
  return (
    <Outline
      title="Was it really this enclave?"
      lead="A receipt is the enclave's signed word about one request: which model ran, for how long, on what, and what came out. Here anyone will be able to check one, long after the request, without a server."
      status="This page is not built yet. Nothing on it judges anything."
      parts={[
        [
          "Any receipt, any form",
          "Paste or drop a receipt, an audit bundle, or a file of many: hex, base64, JSON or raw, recognised without asking.",
        ],
        [
          "Four layers",
          "Form, signature, claims and policy, each as rows like those behind the seal, with the clause that asks for it.",
        ],
        [
          "The claims in words",
          "Times in your own zone, units spelled out, and the original text beside its salted hash.",
        ],
        ["A batch as a whole", "Gaps and repeats in the sequence, across hundreds of receipts at once."],
      ]}
    >
      <p className="prose">
        Until then, the command line does it, offline. Download a bundle next to any result on the Embed page,
        and run:
      </p>
      <Command text={COMMAND} />
    </Outline>
  );
}
