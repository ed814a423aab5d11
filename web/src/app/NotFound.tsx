import { Link } from "./router";

export function NotFound({ path }: { path: string }) {
  return (
    <div className="page-head">
      <h1 tabIndex={-1}>Page not found</h1>
      <p className="prose">
        There is no page at <code>{path}</code>. Your text is still there: <Link to="/">back to Embed</Link>.
      </p>
    </div>
  );
}
