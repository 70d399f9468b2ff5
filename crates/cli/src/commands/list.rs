//! `fathom list`: all metrics.

use fathom_metric::{About, Entry};
use fathom_report::paragraph;
use serde_json::{Value, json};

use crate::arguments::ListArguments;
use crate::exit::Status;

const HINT: &str = "`fathom run METRIC` measures a metric, or a group such as `os`; `fathom \
                    explain METRIC` describes it.";

pub(super) fn list(arguments: &ListArguments) -> anyhow::Result<Status> {
    let entries = super::metrics_named(super::named(&arguments.metrics))?;
    let all: Vec<Value> = entries.iter().map(|entry| as_json(entry)).collect();
    super::print(arguments.json, &all, |layout| {
        let rows: String = entries.iter().map(|entry| row(entry.about(), layout.width)).collect();
        if arguments.metrics.is_empty() {
            return format!("{rows}\n{}", paragraph(HINT, layout.width, "", ""));
        }
        rows
    })
}

/// Id and title on one line; each parameter and the requirements on a further one, or more.
fn row(about: &About, width: usize) -> String {
    let more = |text: &str| paragraph(text, width, "  ", "    ");
    let head = format!("{} [{}]", about.title, about.unit.symbol());
    let mut text = paragraph(&head, width, &format!("{:<24} ", about.id), "    ");
    for one in about.parameters {
        text += &more(&format!("{} = {}: {}", one.name, one.values, one.meaning));
    }
    if !about.requires.is_empty() {
        text += &more(&format!("requires {}", about.requires));
    }
    text
}

fn as_json(entry: &Entry) -> Value {
    let about = entry.about();
    let parameters: Vec<Value> = about
        .parameters
        .iter()
        .map(|one| json!({"name": one.name, "values": one.values, "meaning": one.meaning}))
        .collect();
    json!({
        "id": about.id, "title": about.title, "unit": about.unit.symbol(), "better": about.better,
        "timed": about.timed, "not_timed": about.not_timed, "model": about.model,
        "source": about.source, "pitfalls": about.pitfalls, "parameters": parameters,
        "needs": about.needs, "requires": about.requires, "published": about.published,
        "derived": matches!(entry, Entry::Derived(_)),
    })
}

#[cfg(test)]
mod tests {
    use fathom_probes::REGISTRY;

    use super::*;

    #[test]
    fn lines_fit_80_columns_and_nothing_is_cut() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for entry in REGISTRY.entries() {
            let text = row(entry.about(), 80);
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            assert_eq!(words(&text), words(&row(entry.about(), 1000)));
        }
    }
}
