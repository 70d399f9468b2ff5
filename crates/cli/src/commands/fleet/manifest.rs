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
    let metrics: String = texts.map(|text| format!(", {text}")).collect();
    let text = KUBERNETES.replace("{image}", image).replace("{members}", &members.to_string());
    text.replace("{port}", &fathom_fleet::PORT.to_string()).replace("{metrics}", &metrics)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use serde_json::{Value, json};

    use super::*;

    /// The documents of a manifest, as JSON, by the parser of Python; `None` without one.
    fn parsed(text: &str) -> Option<Vec<Value>> {
        let script =
            "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))";
        let mut python = Command::new("python3");
        python.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut python = python.stderr(Stdio::null()).spawn().ok()?;
        python.stdin.take()?.write_all(text.as_bytes()).ok()?;
        let output = python.wait_with_output().ok()?;
        output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    #[test]
    fn manifest_has_job_of_one_member_a_node() {
        let metrics = ["cpu".to_owned(), "os.syscall{call=stat}".to_owned()];
        let text = kubernetes("registry:5000/fathom@sha256:0f", 12, &metrics);
        assert!(!text.contains("{image}") && !text.contains("{metrics}"), "{text}");
        let Some(documents) = parsed(&text) else {
            eprintln!("skipped: no python3-yaml");
            return;
        };
        let [service, coordinator, members] = &documents[..] else { panic!("{documents:#?}") };
        assert_eq!(service["kind"], "Service");
        let name = service["metadata"]["name"].as_str().unwrap();
        let port = service["spec"]["ports"][0]["port"].as_u64().unwrap();
        let pod = |job: &Value| job["spec"]["template"]["spec"].clone();
        let labels = &coordinator["spec"]["template"]["metadata"]["labels"];
        for (label, value) in service["spec"]["selector"].as_object().unwrap() {
            assert_eq!(labels[label], *value, "the Service finds the coordinator");
        }
        let arguments = pod(coordinator)["containers"][0]["args"].clone();
        let listen = format!("0.0.0.0:{port}");
        let expected = json!([
            "fleet",
            "run",
            "--quick",
            "--members",
            "12",
            "--listen",
            listen,
            "--",
            "cpu",
            "os.syscall{call=stat}"
        ]);
        assert_eq!(arguments, expected);
        let spec = &members["spec"];
        let fields = (&spec["completionMode"], &spec["completions"], &spec["parallelism"]);
        assert_eq!(fields, (&json!("Indexed"), &json!(12), &json!(12)));
        let member = pod(members);
        let apart = &member["affinity"]["podAntiAffinity"];
        let apart = &apart["requiredDuringSchedulingIgnoredDuringExecution"][0];
        assert_eq!(apart["topologyKey"], "kubernetes.io/hostname");
        let own = &members["spec"]["template"]["metadata"]["labels"];
        for (label, value) in apart["labelSelector"]["matchLabels"].as_object().unwrap() {
            assert_eq!(own[label], *value, "members keep away from each other");
        }
        let container = &member["containers"][0];
        assert_eq!(
            container["args"],
            json!(["fleet", "member", "--join", format!("{name}:{port}")])
        );
        let variable = |container: &Value, name: &str| {
            let all = container["env"].as_array().unwrap();
            all.iter().find(|it| it["name"] == name).unwrap()["valueFrom"].clone()
        };
        let node = variable(container, "FATHOM_HOST");
        assert_eq!(node["fieldRef"]["fieldPath"], "spec.nodeName");
        for job in [coordinator, members] {
            let container = &pod(job)["containers"][0];
            assert_eq!(container["image"], "registry:5000/fathom@sha256:0f");
            let secret = variable(container, "FATHOM_TOKEN");
            assert_eq!(secret["secretKeyRef"], json!({"name": name, "key": "token"}));
            assert_eq!(pod(job)["restartPolicy"], "Never");
            assert_eq!(job["spec"]["backoffLimit"], 0);
        }
    }

    #[test]
    fn selectors_stay_texts() {
        let text = kubernetes("i", 1, &["os.syscall{call=\"x\"}".to_owned()]);
        assert!(text.contains(r#", "os.syscall{call=\"x\"}"]"#), "{text}");
    }
}
