import { Outline } from "../../ui/Outline";

export function BenchmarksPage() {
  return (
    <Outline
      title="What does privacy cost?"
      lead="Reading text inside an enclave is slower than reading it outside. By how much, where the time goes, and what it does to the bill: measured, and set beside what others have published."
      status="No figure has been measured for this page yet, so none is shown."
      parts={[
        ["Latency", "Percentiles of whole requests, sealed and unsealed, on the same machine."],
        ["Cold start", "From power-on to the first vector, as a stack of stages."],
        [
          "Throughput",
          "How it grows with concurrency and with the length of the text, and where it stops growing.",
        ],
        ["Memory, transport, cryptography", "What each part takes, alone and together."],
        ["Cost", "Money for a million embeddings, with the prices and the date they held."],
        ["Two runs compared", "Differences in per cent, with their noise; every chart readable as a table."],
      ]}
    />
  );
}
