//! The output of a machine: frames on its console, which lab/zoo/init writes.

use std::collections::BTreeMap;

use serde_json::Value;

/// What a step printed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OutputStep {
    /// `None`: it did not end.
    pub(super) status: Option<i32>,
    /// Null if it is not JSON.
    pub(super) document: Value,
    pub(super) errors: String,
}

/// The steps of a machine.
#[derive(Debug, Default)]
pub(super) struct ZooOutput {
    pub(super) steps: BTreeMap<String, OutputStep>,
    /// What the machine printed outside of steps.
    pub(super) others: Vec<String>,
    /// Whether it reached its end.
    pub(super) is_complete: bool,
}

impl ZooOutput {
    pub(super) fn parse(console: &str) -> Self {
        let mut output = Self::default();
        let mut open: Option<(String, OutputStep)> = None;
        let (mut text, mut is_errors) = (String::new(), false);
        for line in console.lines().map(|line| line.trim_end_matches('\r')) {
            let words: Vec<&str> = line.split(' ').collect();
            match (words.as_slice(), &mut open) {
                (["@zoo", "begin", name], _) => {
                    output.steps.extend(open.take());
                    open = Some(((*name).to_owned(), OutputStep::default()));
                    (text, is_errors) = (String::new(), false);
                }
                (["@zoo", "errors"], Some((_, step))) => {
                    step.document = serde_json::from_str(&text).unwrap_or_default();
                    is_errors = true;
                }
                (["@zoo", "end", status, _], Some((_, step))) => {
                    step.status = status.parse().ok();
                    output.steps.extend(open.take());
                }
                (["@zoo", "done"], _) => output.is_complete = true,
                (_, Some((_, step))) if is_errors => step.errors += &format!("{line}\n"),
                (_, Some(_)) => text += &format!("{line}\n"),
                (_, None) => output.others.push(line.to_owned()),
            }
        }
        output.steps.extend(open);
        output
    }

    /// The value at a path: the name of a step, then of fields; of an item in a list its `name` or
    /// `id`, its number, or the item itself. `None` also for null.
    pub(super) fn find(&self, path: &str) -> Option<&Value> {
        let (step, path) = path.split_once('/')?;
        let document = &self.steps.get(step)?.document;
        path.split('/').try_fold(document, child).filter(|value| !value.is_null())
    }
}

fn child<'v>(value: &'v Value, word: &str) -> Option<&'v Value> {
    match value {
        Value::Object(fields) => fields.get(word),
        Value::Array(items) => {
            let is_named = |item: &&Value| {
                [Some(*item), item.get("name"), item.get("id")]
                    .into_iter()
                    .flatten()
                    .any(|name| name.as_str() == Some(word))
            };
            items.iter().find(is_named).or_else(|| items.get(word.parse::<usize>().ok()?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn frames_have_document_errors_and_status() {
        let console = r#"[ 0.1] a kernel
            @zoo begin doctor
            {"a":
            [{"name": "x", "b": 1}, "c"]}

            @zoo errors
            a warning
            @zoo end 3 2
            @zoo done"#;
        let lines: Vec<&str> = console.lines().map(str::trim_start).collect();
        let output = ZooOutput::parse(&lines.join("\r\n"));
        assert_eq!(output.others, ["[ 0.1] a kernel"]);
        assert!(output.is_complete);
        let step = &output.steps["doctor"];
        assert_eq!((step.status, step.errors.as_str()), (Some(3), "a warning\n"));
        assert_eq!(output.find("doctor/a/x/b"), Some(&json!(1)));
        assert_eq!(output.find("doctor/a/c"), Some(&json!("c")));
        assert_eq!(output.find("doctor/a/0/b"), Some(&json!(1)));
        assert_eq!(output.find("doctor/a/y"), None);
        assert_eq!(output.find("run/a"), None);
    }

    #[test]
    fn step_that_hangs_has_no_status() {
        let output = ZooOutput::parse("@zoo begin doctor\n{\"a\":\n");
        assert!(!output.is_complete);
        assert_eq!(output.steps["doctor"].status, None);
    }
}
