//! Writes headings and tables as Markdown, LaTeX or HTML.

use clap::ValueEnum;

/// Output format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Style {
    /// Markdown.
    Md,
    /// LaTeX tables.
    Latex,
    /// A complete HTML page.
    Html,
}

/// Characters from which a cell is formatted as prose.
const LONG: usize = 28;

#[derive(PartialEq, Eq)]
enum Column {
    Words,
    Prose,
    Numbers,
}

/// A report that is being written.
pub(crate) struct Document {
    pub(crate) style: Style,
    pub(crate) text: String,
}

impl Document {
    pub(crate) fn begin(&mut self, title: &str) {
        match self.style {
            Style::Md => self.line(&format!("# {title}\n")),
            Style::Latex => self.line("% Needs \\usepackage{booktabs,longtable}"),
            Style::Html => self.line(&format!(
                "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n<style>body{{font:16px/1.5 system-ui;max-width:70rem;margin:2rem auto;padding:0 1rem}}table{{border-collapse:collapse}}th,td{{padding:.3rem 1rem .3rem 0;border-bottom:1px solid #ccc;text-align:left}}td+td{{font-variant-numeric:tabular-nums}}</style>\n<h1>{title}</h1>"
            )),
        }
    }

    pub(crate) fn end(&mut self) {
        if self.style == Style::Html {
            self.line("</html>");
        }
    }

    pub(crate) fn heading(&mut self, text: &str) {
        self.write_heading("##", "section", "h2", text);
    }

    pub(crate) fn subheading(&mut self, text: &str) {
        self.write_heading("###", "subsection", "h3", text);
    }

    fn write_heading(&mut self, marks: &str, command: &str, tag: &str, text: &str) {
        let text = self.escape(text);
        self.line(&match self.style {
            Style::Md => format!("\n{marks} {text}\n"),
            Style::Latex => format!("\n\\{command}{{{text}}}"),
            Style::Html => format!("<{tag}>{text}</{tag}>"),
        });
    }

    /// The first `words` columns are text, as are columns with long cells; the others are numbers.
    pub(crate) fn table(&mut self, head: &[&str], rows: &[Vec<String>], words: usize) {
        let longest = |index: usize| {
            let cells = rows.iter().filter_map(|row| row.get(index));
            cells
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or_default()
        };
        let kinds: Vec<Column> = (0..head.len())
            .map(|index| match longest(index) {
                LONG.. => Column::Prose,
                _ if index < words => Column::Words,
                _ => Column::Numbers,
            })
            .collect();
        let escape =
            |row: &[String]| -> Vec<String> { row.iter().map(|cell| self.escape(cell)).collect() };
        let rows: Vec<Vec<String>> = rows.iter().map(|row| escape(row)).collect();
        let head: Vec<String> = head.iter().map(|cell| self.escape(cell)).collect();
        let mut lines = Vec::new();
        match self.style {
            Style::Md => {
                lines.push(format!("| {} |", head.join(" | ")));
                let rule = |kind: &Column| match kind {
                    Column::Numbers => "---:",
                    Column::Words | Column::Prose => "---",
                };
                let rules: Vec<&str> = kinds.iter().map(rule).collect();
                lines.push(format!("| {} |", rules.join(" | ")));
                lines.extend(rows.iter().map(|row| format!("| {} |", row.join(" | "))));
            }
            Style::Latex => {
                // Prose columns share the width that the other columns leave, and wrap.
                let prose = kinds.iter().filter(|kind| **kind == Column::Prose).count();
                let share = if prose > 2 { "0.22" } else { "0.4" };
                let column = |kind: &Column| match kind {
                    Column::Prose => format!("p{{{share}\\linewidth}}"),
                    Column::Words => "l".to_owned(),
                    Column::Numbers => "r".to_owned(),
                };
                let columns: String = kinds.iter().map(column).collect();
                lines.push(format!(
                    "\\begin{{longtable}}{{{columns}}}\n\\toprule\n{} \\\\\n\\midrule\n\\endhead",
                    head.join(" & ")
                ));
                lines.extend(rows.iter().map(|row| format!("{} \\\\", row.join(" & "))));
                lines.push("\\bottomrule\n\\end{longtable}".to_owned());
            }
            Style::Html => {
                lines.push(format!(
                    "<table>\n<tr><th>{}</th></tr>",
                    head.join("</th><th>")
                ));
                lines.extend(
                    rows.iter()
                        .map(|row| format!("<tr><td>{}</td></tr>", row.join("</td><td>"))),
                );
                lines.push("</table>".to_owned());
            }
        }
        lines.iter().for_each(|line| self.line(line));
    }

    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// Escapes `text`: a record may come from anyone, and nothing in it may be interpreted as markup.
    fn escape(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for letter in text.chars() {
            match (self.style, letter) {
                (_, letter) if letter.is_control() => out.push(' '),
                (Style::Md, '|' | '<' | '>' | '`' | '*' | '_' | '[' | ']' | '\\' | '#' | '~') => {
                    out.extend(['\\', letter]);
                }
                (Style::Latex, '&' | '%' | '$' | '#' | '_' | '{' | '}') => {
                    out.extend(['\\', letter]);
                }
                (Style::Latex, '\\') => out.push_str("\\textbackslash{}"),
                (Style::Latex, '~') => out.push_str("\\textasciitilde{}"),
                (Style::Latex, '^') => out.push_str("\\textasciicircum{}"),
                // LaTeX's default font shows other characters for these.
                (Style::Latex, '<' | '>' | '|') => out.extend(['$', letter, '$']),
                // `\\` at the end of a row would take these as its argument where the next row begins with one.
                (Style::Latex, '[' | ']' | '*') => out.extend(['{', letter, '}']),
                (Style::Latex, 'µ' | 'μ') => out.push_str("$\\mu$"),
                (Style::Latex, '→') => out.push_str("$\\to$"),
                (Style::Latex, '×') => out.push_str("$\\times$"),
                (Style::Latex, '²') => out.push_str("$^2$"),
                (Style::Html, '&') => out.push_str("&amp;"),
                (Style::Html, '<') => out.push_str("&lt;"),
                (Style::Html, '>') => out.push_str("&gt;"),
                (Style::Html, '"') => out.push_str("&quot;"),
                (_, letter) => out.push(letter),
            }
        }
        out
    }
}
