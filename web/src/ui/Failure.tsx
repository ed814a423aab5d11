import { Component, type ReactNode } from "react";
import { Button } from "./Button";
import "./failure.css";

interface State {
  readonly error: Error | null;
}

/** Reports that a part of the page failed to render, and offers a reload, which keeps the text; the rest of the page keeps working. */
export class Failure extends Component<{ readonly what: string; readonly children: ReactNode }, State> {
  override state: State = { error: null };

  static getDerivedStateFromError(error: unknown): State {
    return { error: error instanceof Error ? error : new Error(String(error)) };
  }

  override render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    return (
      <div role="alert" className="failure">
        <p>
          <strong>{this.props.what} could not be shown.</strong> {error.message}
        </p>
        <Button icon="repeat" onClick={() => location.reload()}>
          Reload the page
        </Button>
      </div>
    );
  }
}
