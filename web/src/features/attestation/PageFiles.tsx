import { useEffect, useState } from "react";
import { Command } from "../../ui/Command";
import { count } from "../../ui/format";
import { Hash } from "../../ui/Hash";
import { LIST, type PageFile, pageCommand, readList } from "./page-files";
import "./page-files.css";

/** Explains how to verify the page itself, and lists its files as this origin reports them. */
export function PageFiles() {
  return (
    <>
      <p>
        An altered page could lie about itself. To verify this one, build it from source on a machine that you
        trust and run this command in <code>web/dist</code>. It compares every file with the one that this
        address serves, and prints those that differ.
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
    const unmounted = new AbortController();
    fetch(LIST, { signal: unmounted.signal })
      .then((answer) => (answer.ok ? answer.text() : ""))
      .then((text) => setFiles(readList(text) ?? "none"))
      .catch(() => {
        if (!unmounted.signal.aborted) setFiles("none");
      });
    return () => unmounted.abort();
  }, []);
  if (files === "asked") return <p className="muted">Loading the list.</p>;
  if (files === "none") {
    return (
      <p className="muted">
        This address serves no list of its files. A development server has none, and without a network this
        page cannot load it.
      </p>
    );
  }
  return (
    <>
      <p className="muted small">
        {count(files.length)} files, including index.html and the scripts of every view. The list comes from
        this address too: compare it with the list of your own build.
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
