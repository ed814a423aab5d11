import { type DragEvent, useState } from "react";

/** What an element needs to take what is dropped on it, and to show that it would. */
export function useDropTarget(take: (dropped: DataTransfer) => void) {
  const [over, setOver] = useState(false);
  return {
    "data-over": over,
    onDragOver: (event: DragEvent) => {
      event.preventDefault();
      setOver(true);
    },
    onDragLeave: () => setOver(false),
    onDrop: (event: DragEvent) => {
      event.preventDefault();
      setOver(false);
      take(event.dataTransfer);
    },
  };
}
