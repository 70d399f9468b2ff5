//! `fathom report --paper`: whatever was measured is in it, and nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use fathom_record::{Agreement, Cause, Document, Fact, MetricId, Params, State, Unit, Verdict};

use crate::ProgramTestEnv;
use crate::fleet::recorded;
use crate::test_env::{assert_contains, assert_failure, assert_status, entries};

/// Writes the paper of a run to a file of this name.
fn paper(env: &ProgramTestEnv, run: &Document, name: &str) -> String {
    fs::write(env.file("run.json"), serde_json::to_string(run).expect("JSON")).expect("a file");
    assert_status(&env.run(&["report", "--paper", "run.json", "-o", name]), 0);
    fs::read_to_string(env.file(name)).expect("a paper").replace("<wbr>", "")
}

/// The chapters below the title.
fn chapters(html: &str) -> Vec<&str> {
    let parts = html.split("<h2 id=").skip(1);
    parts.filter_map(|part| part.split_once('>')?.1.split("</h2>").next()).collect()
}

#[test]
fn paper_has_every_chapter_and_every_case() {
    let env = ProgramTestEnv::new();
    let run = recorded();
    let html = paper(&env, &run, "paper.html");
    let found = chapters(&html);
    let expected = [
        "Introduction",
        "Machine",
        "Method",
        "Overhead of measurement",
        "Overhead of a loop",
        "Function call by arguments",
        "System call",
        "Process and thread creation",
        "Context switch of processes and threads",
        "Memory access by working set and level",
        "Memory read and write bandwidth",
        "Page fault",
        "Network round trip, local and remote",
        "Peak bandwidth, local and remote",
        "Connection set-up and tear-down, local and remote",
        "File read by size, sequential and random, local and remote",
        "Further results: operating system",
        "Further results: memory",
        "Further results: files and the page cache",
        "Not measured",
        "Summary",
        "Conclusion",
        "References",
        "Appendix: all cases of run 01a210e795096169",
        "Appendix: facts of the machine",
        "Appendix: how to repeat it",
    ];
    assert_eq!(found, expected);
    let cases = html.split("Appendix: all cases").last().expect("an appendix");
    for record in &run.records {
        let name = format!("<td>{}</td>", record.name());
        assert!(cases.contains(&name), "{name}");
    }
    for metric in run.records.iter().map(|it| it.metric.as_str()).collect::<BTreeSet<_>>() {
        assert!(html.contains(&format!("(<code>{metric}</code>)")), "{metric}");
    }
    let command = "<code>fathom run --quick --seed";
    assert_contains(&html, &["28 of the 37 classic operations", command, "default-src 'none'"]);
    assert!(!html.contains("<script") && !html.contains("<img"), "it loads and runs nothing");
    // An interval across a limit is not as predicted, and a noisy number is marked in each table.
    let inconclusive =
        run.records.iter().filter(|it| it.agreement == Some(Agreement::Inconclusive));
    let said = html.split("<li>").filter(|it| it.contains(" inconclusive") && it.contains(" of "));
    assert!(inconclusive.count() > 10 && said.count() > 3);
    let classic = html.split(">Summary</h2>").nth(1).expect("a summary");
    let row = classic.split("<tr>").find(|row| row.contains(">Memory latency<")).expect("a row");
    assert!(row.contains(">~"), "{row}");
    // The line through calls with 0 to 7 arguments.
    assert_contains(&html, &["by arguments</figcaption>", " × arguments, r² = 0."]);
    // What was not measured is named once, with its command.
    let missing = html.split(">Not measured</h2>").nth(1).expect("a chapter");
    let missing = missing.split("</p>").next().expect("a sentence");
    let capacity = "Size of the file cache (<code>fathom file capacity</code>)";
    assert_contains(missing, &[capacity, "(<code>fathom file contend</code>)", "--remote HOST"]);
    assert_eq!(html.matches("Size of the file cache").count(), 1);
}

/// A chapter until the next one.
fn chapter<'h>(html: &'h str, title: &str) -> &'h str {
    let begins = |part: &&str| part.split_once('>').is_some_and(|it| it.1.starts_with(title));
    html.split("<h2 id=").skip(1).find(begins).unwrap_or_else(|| panic!("{title}"))
}

#[test]
fn chapter_has_method_prediction_result_discussion() {
    let env = ProgramTestEnv::new();
    let mut run = recorded();
    let far = run.records.iter_mut().find(|it| it.name() == "cpu.call{args=3}").expect("a call");
    let prediction = far.prediction.as_mut().expect("a prediction");
    (prediction.low, prediction.high) = (Some(0.2), Some(0.5));
    prediction.if_above = "the calls are slow".to_owned();
    far.agreement = Some(Agreement::Outside);
    let sealed = run.records.into_iter().map(fathom_record::Record::sealed).collect();
    let run = Document { records: sealed, ..run };
    let html = paper(&env, &run, "paper.html");
    let calls = chapter(&html, "Function call by arguments</h2>");
    let parts: Vec<&str> = calls
        .split("<h3 ")
        .skip(1)
        .filter_map(|it| it.split_once('>')?.1.split("</h3>").next())
        .collect();
    assert_eq!(parts, ["Method", "Prediction", "Result", "Discussion"]);
    let discussion = calls.split(">Discussion</h3>").nth(1).expect("a discussion");
    let said = "<code>cpu.call{args=3}</code>: measured 1.150 ns, predicted 0.200–0.500 ns, +130 % \
                beyond the limit. The calls are slow";
    assert_contains(
        discussion,
        &[
            "7 of 8 predicted values within (median tolerance ± 20 %), 1 outside; 2 of 2 bounds",
            said,
        ],
    );
    let memory = chapter(&html, "Memory access by working set and level</h2>");
    assert_contains(memory, &["4K pages</text>", "huge pages</text>", "drift while sampling 1"]);
}

#[test]
fn operations_are_compared_with_their_interval_and_prediction() {
    let env = ProgramTestEnv::new();
    let html = paper(&env, &recorded(), "paper.html");
    let calls = chapter(&html, "System call</h2>");
    let compared = |part: &str, start: &str| {
        let item = part.split("<li>").find(|it| it.starts_with(start));
        item.unwrap_or_else(|| panic!("{start} in {part}")).to_owned()
    };
    let call = compared(calls, "A system call takes ");
    assert_contains(
        &call,
        &[" to ", ") times as long as a function call, as predicted (&gt; 10)."],
    );
    let conclusion = chapter(&html, "Conclusion</h2>");
    for start in [
        "A system call takes ",
        "Forking a process takes ",
        "A switch of processes takes ",
        "A connect on loopback takes ",
        "A close on loopback takes ",
        "A random block of this device takes ",
        "A block of a remote file on loopback takes ",
    ] {
        compared(conclusion, start);
    }
}

#[test]
fn hardware_is_documented_and_facts_have_values() {
    let env = ProgramTestEnv::new();
    let html = paper(&env, &recorded(), "paper.html");
    // A fork is predicted from smaller forks.
    let forks = chapter(&html, "Process and thread creation</h2>");
    assert_contains(forks, &[">from other results</th>"]);
    assert!(!forks.contains(">hardware</th>") && !html.contains("software"), "{forks}");
    let loops = chapter(&html, "Overhead of a loop</h2>");
    assert_contains(loops, &[">hardware</th>", "taken branch cycles ÷ frequency"]);
    let machine = chapter(&html, "Machine</h2>");
    assert_contains(machine, &["stepping ", "<td>cycle</td>", "<td>mitigations</td>"]);
    assert_contains(machine, &["<td>microarchitecture</td>", "<td>priority and tuning</td>"]);
    let facts = chapter(&html, "Appendix: facts of the machine</h2>");
    assert_contains(facts, &["<td>memory.page_bytes</td><td>4 KiB</td>"]);
}

#[test]
fn line_that_explains_little_is_no_result() {
    let env = ProgramTestEnv::new();
    let mut run = recorded();
    let call = run.records.iter_mut().find(|it| it.metric.as_str() == "cpu.call").expect("a call");
    call.facts.extend(Fact::of_line(0.1, 0.9, 0.148, Unit::Nanoseconds, "args"));
    let sealed = run.records.into_iter().map(fathom_record::Record::sealed).collect();
    let html = paper(&env, &Document { records: sealed, ..run }, "paper.html");
    let calls = chapter(&html, "Function call by arguments</h2>");
    assert!(!calls.contains("0.148"), "{calls}");
    assert_contains(calls, &["No linear fit is shown: r² &lt; 0.5"]);
}

#[test]
fn stated_line_is_not_computed_again() {
    let env = ProgramTestEnv::new();
    let mut run = recorded();
    let call = run.records.iter_mut().find(|it| it.metric.as_str() == "cpu.call").expect("a call");
    call.facts.push(Fact::text("line", "7.0 ns + 3.0 ns × arguments"));
    let sealed = run.records.into_iter().map(fathom_record::Record::sealed).collect();
    let html = paper(&env, &Document { records: sealed, ..run }, "paper.html");
    let calls = chapter(&html, "Function call by arguments</h2>");
    assert_contains(calls, &["</figure>\n<ul>\n<li>7.0 ns + 3.0 ns × arguments</li>"]);
    assert!(!calls.contains("r² = "), "{calls}");
}

/// The paper of canned runs of commands by hand, after that of a run.
fn paper_of(env: &ProgramTestEnv, names: &[&str]) -> String {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/by-hand.tar.gz");
    let status = Command::new("tar").arg("-xzf").arg(runs).current_dir(env.file("")).status();
    assert!(status.expect("tar").success());
    fs::write(env.file("run.json"), serde_json::to_string(&recorded()).expect("JSON"))
        .expect("a file");
    let files: Vec<String> = names.iter().map(|name| format!("{name}.json")).collect();
    let mut arguments = vec!["report", "--paper", "-o", "paper.html"];
    arguments.extend(files.iter().map(String::as_str));
    assert_status(&env.run(&arguments), 0);
    fs::read_to_string(env.file("paper.html")).expect("a paper").replace("<wbr>", "")
}

#[test]
fn commands_are_chapters_with_answers() {
    let env = ProgramTestEnv::new();
    let html = paper_of(&env, &["run", "load", "transfer", "contend", "sweep", "calls"]);
    let all = chapters(&html);
    let at = |title: &str| all.iter().position(|it| it.starts_with(title)).expect(title);
    // Contention is a chapter of the study; the others follow.
    assert!(at("Contention by processes") < at("Further results: memory"), "{all:?}");
    assert!(at("Further results: memory") < at("Load test of a server"), "{all:?}");
    let load = chapter(&html, "Load test of a server");
    let questions = ["What is the capacity", "response time law", "What is the bottleneck"];
    assert_contains(load, &questions);
    assert_contains(
        load,
        &["throughput by clients", "p99</text>", "not saturated up to 8 clients"],
    );
    let transfer = chapter(&html, "Transfer by every path");
    let fastest = "The fastest of 12 combinations: ";
    let matters = "Which setting matters for small, and how much?";
    assert_contains(transfer, &[fastest, matters, "send mmap against copy: time × ~1.77"]);
    assert!(transfer.contains("copy to mmap, per-file</text>"), "{transfer}");
    assert_contains(
        chapter(&html, "Contention by processes"),
        &["× processes + 62.24 µs (r² 0.860)"],
    );
    let sweep = chapter(&html, "Block-size study");
    assert_contains(sweep, &["by block size", "cached, 1 thread", "<li>best: warm, 1 thread"]);
    let calls = chapter(&html, "Calls study");
    assert_contains(calls, &["calls per second by number of calls", "read of 1 byte</text>"]);
    assert!(!html.contains("<pre>"), "a screen in place of its answers");
}

#[test]
fn block_time_by_file_size_is_in_its_chapter() {
    let env = ProgramTestEnv::new();
    let mut run = recorded();
    let of = |at: usize| {
        let mut record = run.records[0].clone();
        record.metric = MetricId::new("file.capacity.block_time");
        record.title = "time of a block".to_owned();
        record.params = Params::one("file_bytes", 1_i64 << (28 + at));
        record.sealed()
    };
    run.records = (0..4).map(of).collect();
    run.run.procedure = Some("file capacity".to_owned());
    let html = paper(&env, &run, "paper.html");
    let cache = chapter(&html, "Size of the file cache");
    assert_contains(cache, &["<figcaption>Figure 1: time of a block", "by file size"]);
}

#[test]
fn markdown_has_its_figures_beside_it() {
    let env = ProgramTestEnv::new();
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

/// A sweep and a study of the cache share a metric; two batteries have all.
#[test]
fn figures_of_several_runs_have_files_of_their_own() {
    let env = ProgramTestEnv::new();
    paper_of(&env, &["sweep", "calls"]);
    fs::copy(env.file("run.json"), env.file("first.json")).expect("a file");
    let mut second = recorded();
    second.run.id = "f".repeat(16);
    fs::write(env.file("second.json"), serde_json::to_string(&second).expect("JSON")).unwrap();
    let names = |runs: &[&str]| {
        let mut arguments = vec!["report", "--paper", "-o", "lab.md", "--force"];
        arguments.extend(runs);
        assert_status(&env.run(&arguments), 0);
        let text = fs::read_to_string(env.file("lab.md")).expect("a paper");
        let links = text.split("](lab-figures/").skip(1);
        let mut links: Vec<String> =
            links.filter_map(|rest| Some(rest.split(')').next()?.to_owned())).collect();
        links.sort();
        links
    };
    let files = || {
        let mut files: Vec<String> = entries(&env.file("lab-figures"))
            .iter()
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        files.sort();
        files
    };
    let one = names(&["first.json"]);
    let both = names(&["first.json", "second.json", "sweep.json"]);
    assert!(both.len() > 2 * one.len(), "{both:?}");
    assert_eq!(both, files(), "a link a file");
    fs::write(env.file("lab-figures/own.svg"), "<svg>of somebody</svg>").expect("a file");
    let kept = [one.clone(), vec!["own.svg".to_owned()]].concat();
    assert_eq!(names(&["first.json"]), one);
    assert_eq!(files().into_iter().collect::<BTreeSet<_>>(), kept.into_iter().collect());
}

#[test]
fn figures_replace_only_figures() {
    let env = ProgramTestEnv::new();
    paper(&env, &recorded(), "lab.md");
    // Its own figures are replaced.
    paper(&env, &recorded(), "lab.md");
    let figure = entries(&env.file("lab-figures")).remove(0);
    let victim = env.file("victim");
    let refused = |part: &str| {
        fs::write(&victim, "before").expect("a file");
        let output = env.run(&["report", "--paper", "run.json", "-o", "lab.md"]);
        assert_failure(&output, &["lab-figures", part]);
        assert_eq!(fs::read_to_string(&victim).expect("a file"), "before");
    };
    fs::write(&figure, "<svg>of somebody</svg>").expect("a file");
    refused("file exists and is not a page of `fathom report`");
    assert_eq!(fs::read_to_string(&figure).expect("a file"), "<svg>of somebody</svg>");
    fs::remove_file(&figure).expect("a file");
    symlink(&victim, &figure).expect("a link");
    refused("a symlink; remove it");
    assert_status(&env.run(&["report", "--paper", "run.json", "-o", "lab.md", "--force"]), 0);
    assert!(!figure.is_symlink() && fs::read_to_string(&victim).expect("a file") == "before");
    fs::rename(env.file("lab-figures"), env.file("other")).expect("a folder");
    symlink(env.file("other"), env.file("lab-figures")).expect("a link");
    refused("not a directory");
}

#[test]
fn text_of_records_is_text() {
    let env = ProgramTestEnv::new();
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
    let env = ProgramTestEnv::new();
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
