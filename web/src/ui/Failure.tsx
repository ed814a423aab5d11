import { Component, type ReactNode } from "react";
import { Button } from "./Button";
import "./failure.css";

interface State {
  readonly error: Error | null;
}

/** Says that a part of the page could not be loaded or drawn, and offers the way out; the rest of the page goes on. */
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
          <strong>{this.props.what} could not be shown.</strong>{" "}
          {navigator.onLine
            ? error.message
            : "There is no network, and this part of the page had not been loaded before. What you typed is kept; load it once the network is back."}
        </p>
        <Button icon="repeat" onClick={() => location.reload()}>
          Load the page again
        </Button>
      </div>
    );
  }
}
