//! The recipe for Kubernetes: fields that a cluster reads.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::group::skipped;
use crate::test_env::assert_contains;

/// The documents of a manifest, as JSON, by the parser of Python; `None` without one.
fn parsed(text: &str) -> Option<Vec<Value>> {
    let script = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))";
    let mut python = Command::new("python3");
    python.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut python = python.stderr(Stdio::null()).spawn().ok()?;
    python.stdin.take()?.write_all(text.as_bytes()).ok()?;
    let output = python.wait_with_output().ok()?;
    output.status.success().then(|| serde_json::from_slice(&output.stdout).expect("JSON"))
}

#[test]
fn recipe_has_job_of_one_member_a_node() {
    let image = "registry.example/fathom:0.2";
    let text = include_str!("../../../../docs/recipes/kubernetes-fleet.yml");
    assert_contains(text, &["Not yet tried on a cluster"]);
    let Some(documents) = parsed(text) else { return skipped("no python3-yaml") };
    let [service, coordinator, members] = &documents[..] else { panic!("{documents:#?}") };
    assert_eq!(service["kind"], "Service");
    let name = service["metadata"]["name"].as_str().unwrap();
    let port = service["spec"]["ports"][0]["port"].as_u64().unwrap();
    assert_eq!(port, u64::from(fathom_fleet::PORT));
    let pod = |job: &Value| job["spec"]["template"]["spec"].clone();
    let labels = &coordinator["spec"]["template"]["metadata"]["labels"];
    for (label, value) in service["spec"]["selector"].as_object().unwrap() {
        assert_eq!(labels[label], *value, "the Service finds the coordinator");
    }
    let arguments = pod(coordinator)["containers"][0]["args"].clone();
    let listen = format!("0.0.0.0:{port}");
    let expected = json!(["fleet", "run", "--quick", "--members", "12", "--listen", listen, "--"]);
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
        json!(["fleet", "member", "--join", format!("{name}:{port}"), "--connect-time", "10min"])
    );
    let variable = |container: &Value, name: &str| {
        let all = container["env"].as_array().unwrap();
        all.iter().find(|it| it["name"] == name).unwrap()["valueFrom"].clone()
    };
    let node = variable(container, "FATHOM_HOST");
    assert_eq!(node["fieldRef"]["fieldPath"], "spec.nodeName");
    for job in [coordinator, members] {
        let container = &pod(job)["containers"][0];
        assert_eq!(container["image"], image);
        let secret = variable(container, "FATHOM_TOKEN");
        assert_eq!(secret["secretKeyRef"], json!({"name": name, "key": "token"}));
        assert_eq!(pod(job)["restartPolicy"], "Never");
        assert_eq!(job["spec"]["backoffLimit"], 0);
    }
}
