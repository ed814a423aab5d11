import { type DragEvent, useState } from "react";

/**
 * Props of a drop target. Drops of other kinds are left to the browser.
 *
 * Styling hook: `data-over` is true while something that the target accepts is dragged over it.
 */
export function useDropTarget(accept: (dropped: DataTransfer) => void, kinds: "files" | "all" = "all") {
  const [over, setOver] = useState(false);
  const accepts = ({ dataTransfer }: DragEvent) => kinds === "all" || dataTransfer.types.includes("Files");
  return {
    "data-over": over,
    onDragOver: (event: DragEvent) => {
      if (!accepts(event)) return;
      event.preventDefault();
      setOver(true);
    },
    onDragLeave: () => setOver(false),
    onDrop: (event: DragEvent) => {
      if (!accepts(event)) return;
      event.preventDefault();
      setOver(false);
      accept(event.dataTransfer);
    },
  };
}
