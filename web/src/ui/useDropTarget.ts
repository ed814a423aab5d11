import { type DragEvent, useState } from "react";

/** What an element needs to take what is dropped on it, and to show that it would. What it does not take is left to the browser. */
export function useDropTarget(take: (dropped: DataTransfer) => void, kinds: "files" | "all" = "all") {
  const [over, setOver] = useState(false);
  const takes = ({ dataTransfer }: DragEvent) => kinds === "all" || dataTransfer.types.includes("Files");
  return {
    "data-over": over,
    onDragOver: (event: DragEvent) => {
      if (!takes(event)) return;
      event.preventDefault();
      setOver(true);
    },
    onDragLeave: () => setOver(false),
    onDrop: (event: DragEvent) => {
      if (!takes(event)) return;
      event.preventDefault();
      setOver(false);
      take(event.dataTransfer);
    },
  };
}
