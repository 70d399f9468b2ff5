//! `fathom list`: what can be measured.

use fathom_metric::{About, Entry};
use fathom_probes::REGISTRY;
use fathom_record::{Effort, Host, Protocol};
use serde_json::{Value, json};

use crate::arguments::ListArguments;
use crate::exit::{OrUsage, Status};
use fathom_engine::Plan;

/// Where to go from the list.
const MORE: &str = "
`fathom run METRIC` measures one; a dotted beginning, such as `os`, is a group;
`fathom explain METRIC` says more.
";

pub(super) fn list(arguments: &ListArguments) -> anyhow::Result<Status> {
    let asked = arguments.metrics.clone();
    let plan = Plan::new(&REGISTRY, asked, Effort::Quick, Protocol::Median, 0, &Host::default())
        .or_usage()?;
    let chosen: Vec<&About> = plan.metrics(false).iter().map(|entry| entry.about()).collect();
    let all: Vec<Value> = chosen.iter().map(|about| as_json(about)).collect();
    super::print(arguments.json, &all, |layout| {
        let rows: String = chosen.iter().map(|about| row(about, layout.width)).collect();
        rows + if arguments.metrics.is_empty() { MORE } else { "" }
    })
}

/// Id and title on one line; parameters and needs on further ones.
fn row(about: &About, width: usize) -> String {
    let mut text = format!("{:<24} {} [{}]\n", about.id, about.title, about.unit.symbol());
    for parameter in about.parameters {
        let line = format!("  {} = {}: {}", parameter.name, parameter.values, parameter.meaning);
        text.push_str(&fit(&line, width));
    }
    if !about.requires.is_empty() {
        text.push_str(&fit(&format!("  requires {}", about.requires), width));
    }
    text
}

fn fit(line: &str, width: usize) -> String {
    match line.chars().count() > width {
        true => line.chars().take(width - 1).chain(['…', '\n']).collect(),
        false => format!("{line}\n"),
    }
}

fn as_json(about: &About) -> Value {
    let parameters: Vec<Value> = about
        .parameters
        .iter()
        .map(|one| json!({"name": one.name, "values": one.values, "meaning": one.meaning}))
        .collect();
    let derived = matches!(REGISTRY.find(about.id), Some(Entry::Derived(_)));
    json!({
        "id": about.id, "title": about.title, "unit": about.unit.symbol(), "better": about.better,
        "timed": about.timed, "not_timed": about.not_timed, "model": about.model,
        "source": about.source, "pitfalls": about.pitfalls, "parameters": parameters,
        "needs": about.needs, "requires": about.requires, "published": about.published,
        "derived": derived,
    })
}
