//! The recipe for Kubernetes: fields that a cluster reads. The gate of CI: the settings of its
//! script, and the inputs of what calls it.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

use clap::CommandFactory as _;
use fathom_cli::arguments::Arguments;
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

/// The settings that the head of the script has, and those that the text of it reads.
fn gate_settings() -> [BTreeSet<String>; 2] {
    let script = include_str!("../../../../scripts/ci-gate.sh");
    let (head, code) = script.split_once("\nset -euo").expect("a head");
    let words = |text: &str| {
        let is_end = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
        let words = text.split(is_end).filter(|word| word.starts_with("GATE_"));
        words.map(str::to_owned).filter(|word| word != "GATE_").collect()
    };
    let mut read: BTreeSet<String> = words(code);
    let options = code.lines().find_map(|line| line.strip_prefix("for option in "));
    let options = options.and_then(|line| line.strip_suffix("; do")).expect("options");
    for option in options.split(' ') {
        assert!(bench_has(option), "--{option}");
        read.insert(format!("GATE_{}", option.to_uppercase()));
    }
    for word in code.split_whitespace().filter_map(|word| word.strip_prefix("(--")) {
        assert!(word == "depth" || bench_has(word), "--{word}");
    }
    [words(head), read]
}

fn bench_has(option: &str) -> bool {
    let command = Arguments::command();
    let bench = command.find_subcommand("bench").expect("bench");
    bench.get_arguments().any(|it| it.get_long() == Some(option))
}

#[test]
fn gate_of_ci_has_one_set_of_settings() {
    let [documented, read] = gate_settings();
    assert_eq!(documented, read);
    let action = include_str!("../../../../action.yml");
    let component = include_str!("../../../../templates/fathom-gate/template.yml");
    let part = |text: &str, from: &str, to: &str| {
        let (_, rest) = text.split_once(from).expect(from);
        rest.split_once(to).expect(to).0.to_owned()
    };
    let inputs = |text: String| -> BTreeSet<String> {
        let indent = text.lines().find(|line| !line.is_empty()).expect("an input");
        let indent = indent.len() - indent.trim_start().len();
        let is_input = |line: &&str| line.len() > indent && !line[indent..].starts_with(' ');
        let names = text.lines().filter(is_input).map(|line| line.trim().trim_end_matches(':'));
        names.map(|name| format!("GATE_{}", name.replace('-', "_").to_uppercase())).collect()
    };
    assert_eq!(inputs(part(action, "inputs:\n", "outputs:\n")), read);
    // The token is no input of GitLab's, where all can read those; the folder is the artifact's.
    let mut of_component = inputs(part(component, "inputs:\n", "---\n"));
    for own in ["SOURCE", "COMMIT", "IMAGE", "STAGE"] {
        assert!(of_component.remove(&format!("GATE_{own}")), "{own}");
    }
    of_component.extend(["GATE_TOKEN", "GATE_FOLDER"].map(str::to_owned));
    assert_eq!(of_component, read);
    for (text, script) in [
        (action, part(action, "run: '", "\n")),
        (component, part(component, "  script:\n", "  artifacts:")),
    ] {
        assert!(!script.contains("${{") && !script.contains("$[["), "text of a shell: {script}");
        for name in &read {
            let input = name["GATE_".len()..].to_lowercase().replace('_', "-");
            let is_passed = |line: &str| {
                line.contains(&format!("{name}: ")) && line.contains(&format!("inputs.{input} "))
            };
            let is_own = text == component && ["GATE_TOKEN", "GATE_FOLDER"].contains(&&**name);
            assert!(is_own || text.lines().any(is_passed), "{name}");
        }
    }
}
