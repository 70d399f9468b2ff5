//! `fathom list`: metrics by group, those that a word describes, and machine types.

use fathom_analysis::typical::machines;
use fathom_engine::group_of_synonym;
use fathom_metric::{About, Entry};
use fathom_probes::REGISTRY;
use fathom_record::is_own;
use fathom_record::quantity::counted;
use fathom_report::paragraph;
use serde_json::{Value, json};

use crate::arguments::ListArguments;
use crate::exit::{Status, UsageError, usage_error};

const HINT: &str = "`fathom list WORD` searches, `fathom list METRIC` also lists parameters, \
                    `fathom run METRIC` measures a metric or a group, `fathom explain METRIC` \
                    describes it.";

pub(super) fn list(arguments: &ListArguments) -> anyhow::Result<Status> {
    if let Some((first, words)) = arguments.metrics.split_first()
        && first == "types"
    {
        return types(words, arguments.json);
    }
    let entries = match arguments.metrics.as_slice() {
        [] => super::metrics_named(Vec::new())?,
        words => found(words)?,
    };
    let all: Vec<Value> = entries.iter().map(|entry| as_json(entry)).collect();
    super::print_list(arguments.json, "metrics", &all, |layout| {
        let is_exact = |word: &String| entries.iter().any(|entry| entry.about().id == *word);
        if !arguments.metrics.is_empty() && super::named(&arguments.metrics).iter().all(is_exact) {
            return entries.iter().map(|entry| whole(entry.about(), layout.width)).collect();
        }
        let topics = arguments.metrics.iter().filter_map(|word| topic(word));
        let mut text: String =
            topics.map(|it| paragraph(it, layout.width, "", "  ") + "\n").collect();
        for of_group in entries.chunk_by(|a, b| group(a) == group(b)) {
            text += &format!("{}\n", group(of_group[0]));
            let lines = of_group.iter().map(|entry| line(entry.about(), layout.width));
            text.extend(lines);
        }
        format!("{text}\n{}", paragraph(HINT, layout.width, "", ""))
    })
}

/// The metrics with these names, of these groups, or whose description has one of the words.
fn found(words: &[String]) -> Result<Vec<&'static Entry>, UsageError> {
    let mut is_found = vec![false; REGISTRY.entries().len()];
    for word in words {
        let named = super::metrics_named(super::named(std::slice::from_ref(word)));
        let described = || {
            let all = REGISTRY.entries().iter().filter(|entry| has_words(entry.about(), word));
            all.filter(|_| !is_own(word)).collect::<Vec<&Entry>>()
        };
        // What users call a group is the group, beside what is described so.
        let group = group_of_synonym(word).map(|it| super::metrics_named(vec![it.to_owned()]));
        let entries = match named {
            Ok(entries) => entries,
            Err(error) => {
                let mut found = described();
                found.extend(group.transpose()?.unwrap_or_default());
                if found.is_empty() && topic(word).is_none() {
                    return Err(error);
                }
                found
            }
        };
        for (is_found, entry) in is_found.iter_mut().zip(REGISTRY.entries()) {
            *is_found |= entries.iter().any(|one| one.about().id == entry.about().id);
        }
    }
    let all = REGISTRY.entries().iter().zip(is_found);
    Ok(all.filter(|(_, is_found)| *is_found).map(|(entry, _)| entry).collect())
}

/// Whether a description has these words, or some that begin with them.
fn has_words(about: &About, words: &str) -> bool {
    let mut text = format!("{} {} {}", about.id, about.title, about.timed);
    for one in about.parameters {
        text += &format!(" {} {}", one.values, one.meaning);
    }
    let tokens = |text: &str| -> Vec<String> {
        let text = text.to_lowercase();
        text.split(|it: char| !it.is_alphanumeric()).map(str::to_owned).collect()
    };
    let own = tokens(&text);
    tokens(words).iter().all(|word| own.iter().any(|it| it.starts_with(word.as_str())))
}

/// What people look for that is no metric, and the command that answers it.
const TOPICS: &[(&[&str], &str)] = &[
    (
        &[
            "neighbour",
            "neighbor",
            "noisy",
            "steal",
            "throttl",
            "throttle",
            "throttled",
            "throttling",
        ],
        "`fathom doctor` names the programs that take the CPUs, steal, and limits of cgroups; \
         `fathom show --noisy` the noisy results of the last run",
    ),
    (
        &["trust", "ignore", "reliable"],
        "`fathom show` begins with how far its numbers hold; `fathom show --noisy` lists those to \
         ignore, each with its reason",
    ),
    (
        &["nfs", "mount", "share", "smb"],
        "`fathom run file.read.latency --folder DIR` measures the file system of DIR; after a \
         second one with another DIR `fathom compare latest~1 latest` compares both",
    ),
    (
        &["io_uring", "uring"],
        "`fathom bench 'fathom file read FILE --way ring' 'fathom file read FILE --way direct' -n \
         ring -n direct` compares io_uring with pread(2) from the device of FILE; `fathom \
         transfer --send-path copy,uring` for sending",
    ),
    (
        &["huge", "hugepage", "hugepages", "thp"],
        "`fathom show memory.latency.tlb_miss`: what huge pages save in each random access; \
         `fathom show memory.fault`: what they save in page faults; `fathom bench 'CMD' \
         'env GLIBC_TUNABLES=glibc.malloc.hugetlb=1 CMD'`: what they save in a program",
    ),
    (
        &["copy", "rsync", "scp", "backup"],
        "`fathom file read FILE --state cold` and `fathom file write NEW --block 1M --count 1000 \
         --sync data` say how long 100 GB take on each side (200 GB twice that): a copy takes \
         the longer of both, or their sum where both are on one disk; `fathom \
         transfer` compares ways to send",
    ),
    (
        &["http", "nginx", "server", "web", "service", "requests"],
        "`fathom load http://HOST:8080/ --find-max` finds what a server can do and what limits \
         it, `--rate 2000` whether it sustains 2,000 requests/s",
    ),
    (
        &["faster", "program", "script", "command"],
        "`fathom bench 'A' 'B'` says which command is faster",
    ),
    (
        &["night", "yesterday", "trend", "cron", "hourly"],
        "`fathom run file.read.latency --quick` each hour (cron, or a timer of systemd) keeps \
         runs, `fathom history file.read.latency` shows when the number changed",
    ),
    (
        &["buy", "price", "instance", "vm", "vms", "vps", "cloud"],
        "`fathom compare VM1 VM2 VM3` puts runs of several machines side by side (`fathom export` \
         there, `fathom import` here), `fathom compare --typical` one beside published machines",
    ),
];

/// What else answers the question behind a metric.
pub(super) fn topic_of(metric: &str) -> Option<&'static str> {
    let is_of = |text: &str| text.starts_with(&format!("`fathom show {metric}`"));
    TOPICS.iter().map(|(_, text)| *text).find(|text| is_of(text))
}

fn topic(words: &str) -> Option<&'static str> {
    let words = words.to_lowercase();
    let is_of =
        |(known, _): &&(&[&str], &str)| words.split_whitespace().any(|it| known.contains(&it));
    TOPICS.iter().find(is_of).map(|(_, text)| *text)
}

fn group(entry: &Entry) -> &'static str {
    entry.about().id.split('.').next().unwrap_or_default()
}

fn line(about: &About, width: usize) -> String {
    let text = format!("  {:<27} {} [{}]", about.id, about.title, about.unit.symbol());
    fathom_report::cut(&text, width) + "\n"
}

/// Id and title on one line; each parameter and the requirements on a further one, or more.
fn whole(about: &About, width: usize) -> String {
    let more = |text: &str| paragraph(text, width, "  ", "    ");
    let head = format!("{} [{}]", about.title, about.unit.symbol());
    let mut text = paragraph(&head, width, &format!("{:<24} ", about.id), "    ");
    for one in about.parameters {
        text += &more(&format!("{} = {}: {}", one.name, one.values, one.meaning));
    }
    if !about.requires.is_empty() {
        text += &more(&format!("requires {}", about.requires));
    }
    text
}

/// The machine types of `compare --typical --like` whose name or CPU has all words; without words
/// how many each provider has.
fn types(words: &[String], json: bool) -> anyhow::Result<Status> {
    let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let mut all: Vec<_> = machines().iter().map(|one| (one.full_name(), one)).collect();
    all.retain(|(name, one)| {
        let text = format!("{name} {}", one.cpu).to_lowercase();
        words.iter().all(|word| text.contains(word))
    });
    if all.is_empty() {
        usage_error!("no machine type has `{}`; `fathom list types` counts them", words.join(" "));
    }
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    let values = all.iter().map(
        |(name, one)| json!({"type": name, "cpus": one.cpus, "cpu": one.cpu, "date": one.date}),
    );
    let values: Vec<Value> = values.collect();
    super::print_list(json, "types", &values, |layout| {
        let mut text = String::new();
        for of_provider in all.chunk_by(|(_, a), (_, b)| a.provider == b.provider) {
            if words.is_empty() {
                let (name, one) = &of_provider[0];
                let count = counted(of_provider.len(), "type");
                text += &format!("{:<10} {count}, such as {name}\n", one.provider);
                continue;
            }
            for (name, one) in of_provider {
                let line = format!("{name:<32} {:>3} CPUs  {}", one.cpus, one.cpu);
                text += &(fathom_report::cut(&line, layout.width) + "\n");
            }
        }
        let hint = "`fathom list types WORD` lists those with a word in their name or CPU, `fathom \
                    compare --typical --like TYPE` shows the numbers of one beside a run.";
        format!("{text}\n{}", paragraph(hint, layout.width, "", ""))
    })
}

pub(super) fn as_json(entry: &Entry) -> Value {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_80_columns_and_nothing_is_cut() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for entry in REGISTRY.entries() {
            let text = whole(entry.about(), 80);
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            assert_eq!(words(&text), words(&whole(entry.about(), 1000)));
            assert_eq!(line(entry.about(), 80), line(entry.about(), 1000), "cut");
        }
    }

    #[test]
    fn words_find_metrics_by_name_group_and_description() {
        let ids = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let found = found(&words).map_err(|error| error.0)?;
            Ok::<_, String>(found.iter().map(|entry| entry.about().id).collect::<Vec<_>>())
        };
        assert_eq!(ids(&["cpu.call"]).unwrap(), ["cpu.call"]);
        assert!(ids(&["os"]).unwrap().iter().all(|id| id.starts_with("os.")));
        for (word, id) in
            [("checksum", "file.fast"), ("fork", "os.process.fork"), ("disk", "file.fsync")]
        {
            assert!(ids(&[word]).unwrap().contains(&id), "{word}");
        }
        assert!(ids(&["bench"]).unwrap_err().contains("`bench`"), "not searched");
        assert!(ids(&["memry"]).unwrap_err().contains("`memory`"));
    }
}
