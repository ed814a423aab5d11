import type { ButtonHTMLAttributes } from "react";
import "./button.css";
import { Icon, type IconName } from "./Icon";

interface ButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "className" | "type"> {
  /** `primary` once per view; `plain` in rows of controls; `quiet` inside text and tables. */
  kind?: "primary" | "plain" | "quiet";
  icon?: IconName;
  /** Shows only the icon; screen readers still read the children. */
  iconOnly?: boolean;
}

export function Button({ kind = "plain", icon, iconOnly = false, children, ...rest }: ButtonProps) {
  return (
    <button type="button" className={`button button-${kind}${iconOnly ? " button-icon" : ""}`} {...rest}>
      {icon && <Icon name={icon} />}
      <span className={iconOnly ? "visually-hidden" : undefined}>{children}</span>
    </button>
  );
}
