//! `fathom list`: all metrics.

use fathom_metric::{About, Entry};
use serde_json::{Value, json};

use crate::arguments::ListArguments;
use crate::exit::Status;

const HINT: &str = "
`fathom run METRIC` measures a metric, or a group such as `os`;
`fathom explain METRIC` describes it.
";

pub(super) fn list(arguments: &ListArguments) -> anyhow::Result<Status> {
    let entries = super::metrics_named(arguments.metrics.clone())?;
    let all: Vec<Value> = entries.iter().map(|entry| as_json(entry)).collect();
    super::print(arguments.json, &all, |layout| {
        let rows: String = entries.iter().map(|entry| row(entry.about(), layout.width)).collect();
        rows + if arguments.metrics.is_empty() { HINT } else { "" }
    })
}

/// Id and title on one line; each parameter and the requirements on a further one.
fn row(about: &About, width: usize) -> String {
    let mut text = format!("{:<24} {} [{}]\n", about.id, about.title, about.unit.symbol());
    for one in about.parameters {
        text += &cut(&format!("  {} = {}: {}", one.name, one.values, one.meaning), width);
    }
    if !about.requires.is_empty() {
        text += &cut(&format!("  requires {}", about.requires), width);
    }
    text
}

fn cut(line: &str, width: usize) -> String {
    match line.chars().count() > width {
        true => line.chars().take(width - 1).chain(['…', '\n']).collect(),
        false => format!("{line}\n"),
    }
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
