import { useEffect, useState } from "react";
import { Command } from "../../ui/Command";
import { count } from "../../ui/format";
import { Hash } from "../../ui/Hash";
import { LIST, type PageFile, pageCommand, readList } from "./page-files";
import "./page-files.css";

/** How to check the page itself, and every file that it consists of, as this address lists them. */
export function PageFiles() {
  return (
    <>
      <p>
        An altered page would lie about itself. To check this one, build it from the source on a machine you
        trust, and run this in its <code>web/dist</code>: it compares every file with what this address
        serves, and prints those that differ.
      </p>
      <Command text={pageCommand(location.origin)} />
      <Listed />
    </>
  );
}

function Listed() {
  const [open, setOpen] = useState(false);
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>Every file of this page</summary>
      {open && <Files />}
    </details>
  );
}

function Files() {
  const [files, setFiles] = useState<readonly PageFile[] | "asked" | "none">("asked");
  useEffect(() => {
    const gone = new AbortController();
    fetch(LIST, { signal: gone.signal })
      .then((answer) => (answer.ok ? answer.text() : ""))
      .then((text) => setFiles(readList(text) ?? "none"))
      .catch(() => {
        if (!gone.signal.aborted) setFiles("none");
      });
    return () => gone.abort();
  }, []);
  if (files === "asked") return <p className="muted">Asking for the list.</p>;
  if (files === "none") {
    return (
      <p className="muted">
        This address serves no list of its files: a development server has none, and without a network none
        can be asked for.
      </p>
    );
  }
  return (
    <>
      <p className="muted small">
        {count(files.length)} files, index.html and the scripts of every view among them. The list comes from
        this address too: compare it with that of your own build.
      </p>
      <ul className="page-files">
        {files.map(({ name, sha256 }) => (
          <li key={name}>
            <code>{name}</code> <Hash value={sha256} label={`SHA-256 of ${name}`} />
          </li>
        ))}
      </ul>
    </>
  );
}
