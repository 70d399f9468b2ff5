//! `fathom report --paper`: whatever was measured is in it, and nothing else.

use std::collections::BTreeSet;
use std::fs;

use fathom_record::{Agreement, Cause, Document, State, Verdict};

use crate::TestEnv;
use crate::fleet::recorded;
use crate::test_env::{assert_contains, assert_failure, assert_status, entries};

/// Writes the paper of a run to a file of this name.
fn paper(env: &TestEnv, run: &Document, name: &str) -> String {
    fs::write(env.file("run.json"), serde_json::to_string(run).expect("JSON")).expect("a file");
    assert_status(&env.run(&["report", "--paper", "run.json", "-o", name]), 0);
    fs::read_to_string(env.file(name)).expect("a paper")
}

/// The chapters below the title.
fn chapters(html: &str) -> Vec<&str> {
    let parts = html.split("<h2 id=").skip(1);
    parts.filter_map(|part| part.split_once('>')?.1.split("</h2>").next()).collect()
}

#[test]
fn paper_has_every_chapter_and_every_case() {
    let env = TestEnv::new();
    let run = recorded();
    let html = paper(&env, &run, "paper.html");
    let found = chapters(&html);
    let expected = [
        "Machine",
        "Method",
        "Clock, loop and calls",
        "Operating system",
        "Memory",
        "Network",
        "Files and the page cache",
        "Summary",
        "References",
        "Appendix: all cases of run 01a210e795096169",
        "Appendix: facts of the machine",
        "Appendix: how to repeat it",
    ];
    assert_eq!(found, expected);
    let cases = html.split("Appendix: all cases").last().expect("an appendix");
    let plain = cases.replace("<wbr>", "");
    for record in &run.records {
        let name = format!("<td>{}</td>", record.name());
        assert!(plain.contains(&name), "{name}");
    }
    for metric in run.records.iter().map(|it| it.metric.as_str()).collect::<BTreeSet<_>>() {
        assert!(html.contains(&format!("(<code>{metric}</code>)</h3>")), "{metric}");
    }
    let command = "<code>fathom run --quick --seed";
    assert_contains(&html, &["28 of the 37 classic operations", command, "default-src 'none'"]);
    assert!(!html.contains("<script") && !html.contains("<img"), "it loads and runs nothing");
    // An interval across a limit is not as predicted, and a noisy number is marked in each table.
    let inconclusive =
        run.records.iter().filter(|it| it.agreement == Some(Agreement::Inconclusive));
    let said = html.split("<li>").filter(|it| it.contains("inconclusive.</li>"));
    assert!(inconclusive.count() > 10 && said.count() > 3, "{html}");
    let classic = html.split(">Summary</h2>").nth(1).expect("a summary");
    let row = classic.split("<tr>").find(|row| row.contains(">Memory latency<")).expect("a row");
    assert!(row.contains(">~"), "{row}");
    // The line through calls with 0 to 7 arguments.
    assert_contains(&html, &["by args</figcaption>", " × args, r² = 0."]);
}

#[test]
fn markdown_has_its_figures_beside_it() {
    let env = TestEnv::new();
    let text = paper(&env, &recorded(), "lab.md");
    let linked: BTreeSet<&str> =
        text.split("](lab-figures/").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    let files = entries(&env.file("lab-figures"));
    let names: BTreeSet<String> =
        files.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    assert!(linked.len() >= 10, "{linked:?}");
    assert_eq!(linked, names.iter().map(String::as_str).collect());
    for path in files {
        let svg = fs::read_to_string(path).expect("a figure");
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}

#[test]
fn text_of_records_is_text() {
    let env = TestEnv::new();
    let mut run = recorded();
    let hostile = "<img src=x onerror=alert(1)>`<b>|";
    run.host.name = hostile.to_owned();
    run.run.label = Some(hostile.to_owned());
    run.records.truncate(3);
    run.records[0].verdict = Verdict::because(State::Failed, Cause::Crashed, hostile);
    let sealed = run.records.into_iter().map(fathom_record::Record::sealed).collect();
    let run = Document { records: sealed, ..run };
    let html = paper(&env, &run, "paper.html");
    assert!(!html.contains("<img") && !html.contains("<b>"), "{html}");
    assert!(html.contains("&lt;img src=x onerror=alert(1)&gt;"), "{html}");
    let markdown = paper(&env, &run, "paper.md");
    assert!(!markdown.contains("<img src=x onerror=alert(1)>`<b>"), "{markdown}");
    // What has no number is said with its reason, and has no place in the summary.
    assert_contains(&html, &["Without a number, failed: "]);
}

#[test]
fn paper_replaces_only_papers() {
    let env = TestEnv::new();
    let run = recorded();
    for name in ["paper.html", "paper.md"] {
        paper(&env, &run, name);
        paper(&env, &run, name);
    }
    fs::write(env.file("notes.md"), "# Notes\n").expect("a file");
    let output = env.run(&["report", "--paper", "run.json", "-o", "notes.md"]);
    assert_failure(&output, &["notes.md", "file exists and is not a page of `fathom report`"]);
    assert_eq!(fs::read_to_string(env.file("notes.md")).expect("a file"), "# Notes\n");
}
