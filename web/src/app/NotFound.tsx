import { Link } from "./router";

export function NotFound({ path }: { path: string }) {
  return (
    <div className="page-head">
      <h1 tabIndex={-1}>There is no page here</h1>
      <p className="prose">
        Nothing lives at <code>{path}</code>. The text you typed is still where it was:{" "}
        <Link to="/">back to Embed</Link>.
      </p>
    </div>
  );
}
