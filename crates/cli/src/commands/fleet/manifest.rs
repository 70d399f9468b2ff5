//! `fathom fleet manifest`: what starts coordinator and members on a cluster.

use crate::arguments::fleet::ManifestArguments;
use crate::commands::{metrics_named, named, print_text};
use crate::exit::Status;

const KUBERNETES: &str = include_str!("manifest/kubernetes.yaml");

pub(in super::super) fn manifest(arguments: &ManifestArguments) -> anyhow::Result<Status> {
    let metrics = named(&arguments.metrics);
    metrics_named(metrics.clone())?;
    print_text(&kubernetes(&arguments.image, arguments.members, &metrics))
}

/// The image is one word of YAML; metrics are texts of JSON, which YAML reads as such.
fn kubernetes(image: &str, members: u32, metrics: &[String]) -> String {
    let texts = metrics.iter().map(|text| serde_json::to_string(text).unwrap_or_default());
    let list: String = texts.map(|text| format!(", {text}")).collect();
    let text = KUBERNETES.replace("{image}", image).replace("{members}", &members.to_string());
    text.replace("{port}", &fathom_fleet::PORT.to_string()).replace("{metrics}", &list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_stay_texts() {
        let text = kubernetes("i", 1, &["os.syscall{call=\"x\"}".to_owned()]);
        assert!(text.contains(r#", "os.syscall{call=\"x\"}"]"#), "{text}");
    }
}
