//! Groups of runs: one host against its group, the page of many hosts, groups compared, the history
//! of a label.

use fathom_record::Document;
use serde_json::Value;

use crate::ProgramTestEnv;
use crate::fleet::{env_with_odd_host, fleet, slower, write};
use crate::test_env::{assert_contains, assert_failure, assert_status, json, text};

/// The runs of these files in one, as `cat` writes them.
fn concatenate(env: &ProgramTestEnv, files: impl Iterator<Item = String>, name: &str) {
    let texts = files.map(|file| std::fs::read_to_string(env.file(&file)).expect("a run"));
    std::fs::write(env.file(name), texts.collect::<String>()).expect("a file");
}

/// [`env_with_odd_host`] with the runs of all in `group.jsonl`.
fn env_with_group() -> ProgramTestEnv {
    let env = env_with_odd_host();
    let nodes = (1..=8).map(|at| format!("node{at}.json"));
    let all = nodes.chain((1..=3).map(|at| format!("web{at}.json")));
    concatenate(&env, all, "group.jsonl");
    env
}

/// Eight hosts in runs with the label `before`, and in others with `after`, in which all are 5 %
/// slower in memory, and one 40 %.
pub(crate) fn env_with_two_groups() -> ProgramTestEnv {
    let env = ProgramTestEnv::new();
    let labelled = |label: &str, first: &str| {
        let mut runs = fleet("node", 8);
        for run in &mut runs {
            run.run.label = Some(label.to_owned());
            run.run.id.replace_range(..1, first);
        }
        runs
    };
    let (before, mut after) = (labelled("before", "a"), labelled("after", "b"));
    for (at, run) in after.iter_mut().enumerate() {
        run.host.kernel = "7.0.0".to_owned();
        let memory = run.records.iter_mut().filter(|it| it.metric.as_str().starts_with("memory."));
        memory.for_each(|record| slower(record, if at == 4 { 1.4 } else { 1.05 }));
    }
    let stored = |runs: &[Document]| env.stdout(&format!("import {}", write(&env, runs)));
    stored(&before);
    stored(&after);
    env
}

#[test]
fn check_against_a_group_answers_for_one_host() {
    let env = env_with_group();
    let check = |arguments: &str| {
        let output = env.exec(&format!("check {arguments}"));
        (output.status.code().expect("a status"), text(&output.stdout))
    };
    let (status, line) = check("node5.json --against group.jsonl");
    assert_eq!(status, 2, "{line}");
    let odd = "FATHOM CRITICAL - odd among 8 hosts of this hardware: memory";
    let governor = "governor: powersave instead of performance on 7 of 8 hosts";
    assert_contains(&line, &[odd, "slower, ", governor, "; run n00", " of node5, ", " | odd="]);
    assert_eq!(line.lines().count(), 1);
    let (status, line) = check("node4.json --against group.jsonl");
    assert_eq!(status, 0, "{line}");
    assert_contains(&line, &["FATHOM OK - not odd among 8 hosts of this hardware: ", "odd=0;;0"]);
    let (status, line) = check("web2.json --against group.jsonl");
    assert_eq!(status, 3);
    let few = "FATHOM UNKNOWN - 3 hosts of this hardware, itself included: at least 5 are needed";
    assert_contains(&line, &[few]);
    // Files of one run each, and the worst of both kinds of check.
    let files: String = (1..=7).map(|at| format!(" --against node{at}.json")).collect();
    std::fs::write(env.file("limits.toml"), "\"cpu.frequency\" = \"1 Hz..\"\n").expect("a file");
    let (status, line) = check(&format!("node5.json --limits limits.toml{files}"));
    assert_eq!(status, 2);
    assert_contains(&line, &["FATHOM CRITICAL - kept; odd among 7 hosts", "kept=1"]);
    assert!(line.len() < 1_024 && !line.contains("'cpu.frequency'="), "{line}");
    let (_, line) = check(&format!("node5.json --verbose --limits limits.toml{files}"));
    assert_contains(&line, &["'cpu.frequency'="]);
    std::fs::write(env.file("limits.toml"), "\"cpu.frequency\" = \"..1 Hz\"\n").expect("a file");
    let (status, line) = check("node4.json --limits limits.toml --against group.jsonl");
    assert_eq!(status, 2);
    assert_contains(&line, &["FATHOM CRITICAL - not kept", "; not odd among 8 hosts"]);
    for wrong in ["node4.json --against gone.json", "node4.json", "--against group.jsonl gone"] {
        let (status, line) = check(wrong);
        assert_eq!(status, 3, "{line}");
        assert_contains(&line, &["FATHOM UNKNOWN - "]);
    }
}

#[test]
fn label_is_all_its_runs() {
    let env = env_with_two_groups();
    let output = env.exec("check node5.json --against before --against after");
    // Its own older run is no peer, and of each host the newest counts.
    assert_status(&output, 2);
    assert_contains(&text(&output.stdout), &["odd among 8 hosts", "memory"]);
    let exported = env.stdout("export before");
    assert_eq!(exported.lines().count(), 8);
    assert!(exported.lines().all(|line| line.contains("\"label\":\"before\"")));
    // A view of one run still wants one.
    assert_failure(&env.exec("show before"), &["before"]);
}

#[test]
fn groups_are_compared_as_wholes_and_by_host() {
    let env = env_with_two_groups();
    let output = env.succeed("compare before after --json");
    let compared: Value = json(&output);
    let first = &compared["hosts"][0];
    assert_eq!(
        (&first["host"], first["runs"][0].as_str()),
        (&"node5".into(), Some("a000000000000004"))
    );
    assert!(first["changed"].as_array().expect("cases").len() > 10);
    let rows = compared["whole"]["rows"].as_array().expect("rows");
    let slower = |row: &&Value| row["word"] == "slower";
    let words: Vec<&str> =
        rows.iter().filter(slower).filter_map(|row| row["metric"].as_str()).collect();
    assert!(words.len() > 10 && words.iter().all(|it| it.starts_with("memory.")), "{words:?}");
    let ratio = rows[0]["ratio"].as_f64().expect("a ratio");
    assert!((ratio - 1.05).abs() < 0.01, "the median of the hosts, not the worst: {ratio}");
    assert_eq!(compared["whole"]["differences"][0]["what"], "kernel");
    assert_status(&env.exec("compare before after --fail-on 3%"), 3);
    assert_status(&env.exec("compare before before --fail-on 3%"), 0);
    // Two files of several runs are groups, too.
    let exported = |label: &str| {
        let file = format!("{label}.jsonl");
        std::fs::write(env.file(&file), env.stdout(&format!("export {label}"))).expect("a file");
        file
    };
    let files = [exported("before"), exported("after")].join(" ");
    assert_contains(&env.stdout(&format!("compare {files}")), &["in both  8: node[1-8]"]);
}

#[test]
fn history_of_a_label_has_its_hosts_and_runs_only() {
    let env = env_with_two_groups();
    let histories: Value = json(&env.exec("history os.syscall --label after --json"));
    let histories = histories["histories"].as_array().expect("hosts");
    assert_eq!(histories.len(), 8);
    for history in histories {
        let points = history["series"][0]["points"].as_array().expect("points");
        assert_eq!((points.len(), &points[0]["label"]), (1, &"after".into()));
    }
    assert_failure(
        &env.exec("history os.syscall --label none"),
        &["no stored run has the label none; `fathom show --runs` lists the runs"],
    );
}

#[test]
fn page_of_many_hosts_has_their_numbers() {
    let env = env_with_group();
    let output = env.succeed("report --fleet group.jsonl -o fleet.html");
    assert_contains(&text(&output.stdout), &["Wrote fleet.html (", "11 hosts, 11 runs. Open it"]);
    let page = std::fs::read_to_string(env.file("fleet.html")).expect("a page");
    let (_, after) = page.split_once("id=\"runs\">").expect("the data");
    let (data, _) = after.split_once("</script>").expect("its end");
    let fleet = &serde_json::from_str::<Value>(data).expect("JSON")["fleet"];
    assert_eq!(
        (&fleet["verdict"], &fleet["tone"]),
        (&"1 of 11 hosts is odd: node5".into(), &"bad".into())
    );
    let group = &fleet["groups"][0];
    assert_eq!((&group["names"], &group["odd"][0][0]), (&"node[1-8]".into(), &"node5".into()));
    assert_eq!(group["facts"][0][0], "governor");
    let strips = group["strips"].as_array().expect("strips");
    let of = |title: &str| strips.iter().find(|it| it["title"] == title).expect("a strip");
    let memory = of("Page fault");
    assert_eq!(
        (memory["numbers"].as_array().map(Vec::len), &memory["odd"][0][0]),
        (Some(8), &4.into())
    );
    let places = strips.iter().filter_map(|it| it["typical"][2].as_str());
    assert!(places.clone().count() > 0);
    places.for_each(|place| assert_contains(place, &["machine types with"]));
    // A page of a few runs is refused for many, and an overwritten page is ours.
    assert_status(&env.exec("report --fleet group.jsonl -o fleet.html"), 0);
    assert_status(&env.exec("report --fleet -o x.html"), 2);
}
