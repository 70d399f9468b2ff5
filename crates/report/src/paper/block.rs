//! What a paper consists of, and its two forms: Markdown with figures in files, and one HTML page.

use fathom_record::quantity::NOTHING;

use crate::column::{Column, ColumnSide, filled};
use crate::markdown;
use crate::wrap::{GLUE, clean, width_of};

/// A part of a paper. Text between backticks is code.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Block {
    /// Of level 1 to 3.
    Heading(usize, String),
    Text(String),
    List(Vec<String>),
    /// As it was printed.
    Printed(String),
    Table(PaperTable),
    Figure(PaperFigure),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct PaperTable {
    pub(super) caption: String,
    pub(super) columns: Vec<Column>,
}

impl PaperTable {
    /// A table with a row for each of `rows`.
    pub(super) fn filled<R>(
        caption: String,
        columns: &[Column<impl Fn(&R) -> String>],
        rows: &[R],
    ) -> Self {
        Self { caption, columns: filled(columns, rows) }
    }

    /// Without the columns of numbers that are unknown in each row.
    pub(super) fn without_empty_columns(mut self) -> Self {
        self.columns
            .retain(|it| it.side == ColumnSide::Left || it.cell.iter().any(|it| it != NOTHING));
        self
    }
}

/// A drawing, and the stem of its file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PaperFigure {
    pub(super) name: String,
    pub(super) caption: String,
    pub(super) svg: String,
}

/// A paper in Markdown and its figures, or whole as one page.
#[derive(Clone, Debug, PartialEq)]
pub struct Paper {
    pub text: String,
    /// Name and contents of each file beside the text.
    pub figures: Vec<(String, String)>,
}

/// Numbers of tables and figures, in the order of the text.
#[derive(Default)]
struct PaperNumbers {
    tables: usize,
    figures: usize,
}

impl PaperNumbers {
    fn table(&mut self, caption: &str) -> String {
        self.tables += 1;
        format!("Table {}: {caption}", self.tables)
    }

    fn figure(&mut self, caption: &str) -> String {
        self.figures += 1;
        format!("Figure {}: {caption}", self.figures)
    }
}

/// Figures are in the folder of this name, beside the text.
pub(super) fn to_markdown(blocks: &[Block], folder: &str) -> Paper {
    let mut numbers = PaperNumbers::default();
    let mut figures: Vec<(String, String)> = Vec::new();
    let mut part = |block: &Block| match block {
        Block::Heading(level, text) => {
            format!("{} {}\n", "#".repeat(*level), inline_markdown(text))
        }
        Block::Text(text) => inline_markdown(text) + "\n",
        Block::List(items) => {
            items.iter().map(|item| format!("- {}\n", inline_markdown(item))).collect()
        }
        Block::Printed(text) => fenced(text),
        Block::Table(table) => {
            let caption = inline_markdown(&numbers.table(&table.caption));
            let plain = |it: &Column| Column {
                cell: it.cell.iter().map(|text| plain(text)).collect(),
                ..it.clone()
            };
            let columns: Vec<Column> = table.columns.iter().map(plain).collect();
            format!("{caption}\n\n{}", markdown::table(&columns))
        }
        Block::Figure(figure) => {
            // Of several runs, or of two commands, figures have the same name.
            let is_free = |file: &String| figures.iter().all(|(other, _)| other != file);
            let further = (2..).map(|at| format!("{}-{at}.svg", figure.name));
            let mut files = std::iter::once(format!("{}.svg", figure.name)).chain(further);
            let file = files.find(is_free).unwrap_or_default();
            let caption = inline_markdown(&numbers.figure(&figure.caption));
            figures.push((file.clone(), figure.svg.clone()));
            format!("![{caption}]({folder}/{file})\n\n{caption}\n")
        }
    };
    let text = blocks.iter().map(&mut part).collect::<Vec<String>>().join("\n");
    Paper { text, figures }
}

/// A block of code whose fence does not occur in it.
fn fenced(text: &str) -> String {
    let mut fence = "```".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    let lines: Vec<String> = text.trim_end().lines().map(clean).collect();
    format!("{fence}text\n{}\n{fence}\n", lines.join("\n"))
}

/// Text that may be code, by turns; all is text if a backtick has no partner.
fn turns(text: &str) -> Vec<(bool, &str)> {
    let parts: Vec<&str> = text.split('`').collect();
    match parts.len() % 2 {
        1 => parts.into_iter().enumerate().map(|(at, part)| (at % 2 == 1, part)).collect(),
        _ => vec![(false, text)],
    }
}

fn plain(text: &str) -> String {
    clean(text).replace(GLUE, " ")
}

fn inline_markdown(text: &str) -> String {
    let part = |(is_code, part): (bool, &str)| match is_code {
        true => format!("`{}`", plain(part)),
        false => markdown::text(&plain(part)),
    };
    turns(text).into_iter().map(part).collect()
}

/// Nothing is loaded and nothing runs. `Fathom paper` is looked for before a file is replaced.
pub(super) const HTML_MARK: &str = "<meta name=\"generator\" content=\"fathom report --paper\">";

const STYLE: &str = include_str!("paper.css");

pub(super) fn to_html(title: &str, blocks: &[Block]) -> Paper {
    let mut numbers = PaperNumbers::default();
    let mut anchors = 0;
    let mut contents = String::new();
    let mut part = |block: &Block| match block {
        Block::Heading(level, text) => {
            anchors += 1;
            let words = inline_html(text);
            if *level == 2 {
                contents += &format!("<li><a href=\"#s{anchors}\">{words}</a></li>\n");
            }
            format!("<h{level} id=\"s{anchors}\">{words}</h{level}>\n")
        }
        Block::Text(text) => format!("<p>{}</p>\n", inline_html(text)),
        Block::List(items) => {
            let items: String =
                items.iter().map(|item| format!("<li>{}</li>\n", inline_html(item))).collect();
            format!("<ul>\n{items}</ul>\n")
        }
        Block::Printed(text) => format!("<pre>{}</pre>\n", escaped_lines(text)),
        Block::Table(table) => table_html(table, &mut numbers),
        Block::Figure(figure) => {
            let caption = inline_html(&numbers.figure(&figure.caption));
            format!("<figure>\n{}<figcaption>{caption}</figcaption>\n</figure>\n", figure.svg)
        }
    };
    let body: String = blocks.iter().map(&mut part).collect();
    // After the first heading and the text below it come the contents.
    let body = match body.find("<h2") {
        Some(at) => format!("{}<nav><ol>\n{contents}</ol></nav>\n{}", &body[..at], &body[at..]),
        None => body,
    };
    let text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n{HTML_MARK}\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width, \
         initial-scale=1\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         {body}</main>\n</body>\n</html>\n",
        escaped(title)
    );
    Paper { text, figures: Vec::new() }
}

/// Columns of the longest number; a longer text is divided into lines.
const NUMBER_MAX: usize = 30;
/// So many rows are not divided between pages.
const SHORT: usize = 12;

fn table_html(table: &PaperTable, numbers: &mut PaperNumbers) -> String {
    let line = |cell: &str, text_of: &dyn Fn(&Column) -> String| {
        let one = |column: &Column| {
            let text = text_of(column);
            let is_number = column.side == ColumnSide::Right && width_of(&text) <= NUMBER_MAX;
            let class = if is_number { " class=\"n\"" } else { "" };
            format!("<{cell}{class}>{}</{cell}>", breakable(&escaped(&text)))
        };
        format!("<tr>{}</tr>\n", table.columns.iter().map(one).collect::<String>())
    };
    let caption = inline_html(&numbers.table(&table.caption));
    let count = table.columns.first().map_or(0, |column| column.cell.len());
    let row = |at: usize| line("td", &|column| column.cell[at].clone());
    let rows: String = (0..count).map(row).collect();
    let mut class = if count <= SHORT { "short" } else { "long" }.to_owned();
    if table.columns.first().is_some_and(|it| it.title == "case") {
        class += " cases";
    }
    format!(
        "<div class=\"scroll\"><table class=\"{class}\">\n<caption>{caption}</caption>\n\
         <thead>{}</thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n",
        line("th", &|column| column.title.to_string())
    )
}

/// The names of cases have no blanks: a line may end between their parameters, not inside a word.
fn breakable(html: &str) -> String {
    html.replace(',', ",<wbr>").replace('{', "<wbr>{")
}

/// Text of HTML, also within quotation marks.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for letter in plain(text).chars() {
        match letter {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            letter => escaped.push(letter),
        }
    }
    escaped
}

fn escaped_lines(text: &str) -> String {
    text.trim_end().lines().map(escaped).collect::<Vec<String>>().join("\n")
}

fn inline_html(text: &str) -> String {
    let part = |(is_code, part): (bool, &str)| match is_code {
        true => format!("<code>{}</code>", breakable(&escaped(part))),
        false => escaped(part),
    };
    turns(text).into_iter().map(part).collect()
}
