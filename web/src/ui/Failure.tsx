import { Component, type ReactNode } from "react";
import { Button } from "./Button";
import "./failure.css";

interface State {
  readonly error: Error | null;
}

/** Reports that a part of the page failed to load or render, and offers a reload; the rest of the page keeps working. */
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
            : "There is no network, and this part of the page was not loaded before. Your text is still there; reload once the network is back."}
        </p>
        <Button icon="repeat" onClick={() => location.reload()}>
          Reload the page
        </Button>
      </div>
    );
  }
}
