//! The rows that the command line selects.

use fathom_peers::{PEERS, Peer, PeerMachine, Row};

use crate::exit::{OrUsage, UsageError};
use crate::remedy::did_you_mean;
use fathom_engine::{CaseSelector, beginnings, matches, nearest_of};

/// A peer with its selected rows.
pub(super) struct Selection {
    pub(super) peer: &'static dyn Peer,
    pub(super) rows: Vec<Row>,
}

/// The rows that the words select, by peer; all rows if there are no words.
///
/// # Errors
/// A word that selects no row.
pub(super) fn select(words: &[String], machine: &PeerMachine) -> anyhow::Result<Vec<Selection>> {
    let words: Result<Vec<CaseSelector>, _> =
        words.iter().map(|word| CaseSelector::parse(word)).collect();
    let words = words.or_usage()?;
    let all = || PEERS.iter().map(|peer| (*peer, peer.rows(machine)));
    for word in &words {
        if !all().any(|(peer, rows)| rows.iter().any(|row| selects(word, peer, row))) {
            return Err(UsageError(unknown(word, machine)).into());
        }
    }
    let selected = |(peer, mut rows): (&'static dyn Peer, Vec<Row>)| {
        rows.retain(|row| match words.as_slice() {
            // Load generators take three minutes and more each.
            [] => !row.only_named && !row.serves,
            words => words.iter().any(|word| selects(word, peer, row)),
        });
        (!rows.is_empty()).then_some(Selection { peer, rows })
    };
    Ok(all().filter_map(selected).collect())
}

fn selects(word: &CaseSelector, peer: &dyn Peer, row: &Row) -> bool {
    let is_peer = !word.has_parameters() && word.name == peer.name();
    let is_enough = word.has_parameters() || !row.only_named;
    is_peer || (is_enough && matches(row.metric, &word.name) && word.selects(&row.params))
}

/// The error for a word that selects no row, with the nearest names.
fn unknown(word: &CaseSelector, machine: &PeerMachine) -> String {
    let rows: Vec<Row> = PEERS.iter().flat_map(|peer| peer.rows(machine)).collect();
    if let Some(row) = rows.iter().find(|row| row.metric == word.name) {
        let cases = rows.iter().filter(|other| other.metric == row.metric);
        let cases: Vec<String> = cases.map(Row::case).collect();
        return format!("`{}`: no such case; cases: {}", word.text, cases.join(" "));
    }
    let mut names: Vec<&str> = rows.iter().flat_map(|row| beginnings(row.metric)).collect();
    names.extend(PEERS.iter().map(|peer| peer.name()));
    names.sort_unstable();
    names.dedup();
    let nearest = nearest_of(&word.name, names);
    let remedy = did_you_mean(&nearest, "`fathom crosscheck --list` lists them all");
    format!("no group, program or metric of a crosscheck is named `{}`; {remedy}", word.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases(words: &[&str]) -> anyhow::Result<Vec<(&'static str, String)>> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let mut host = fathom_record::Host::default();
        host.cpu.allowed = vec![0, 1];
        let all = select(&words, &PeerMachine { host: &host, cpu: 1 })?;
        let of =
            |one: Selection| one.rows.into_iter().map(move |row| (one.peer.name(), row.case()));
        Ok(all.into_iter().flat_map(of).collect())
    }

    #[test]
    fn words_select_program_group_metric_or_case() {
        assert!(cases(&["fio"]).unwrap().iter().all(|(peer, _)| *peer == "fio"));
        let memory = cases(&["memory"]).unwrap();
        assert!(memory.len() >= 4 && memory.iter().all(|(_, case)| case.starts_with("memory.")));
        let copies = cases(&["memory.bandwidth{op=copy}"]).unwrap();
        assert!(copies.iter().all(|(_, case)| case.contains("op=copy")) && copies.len() >= 2);
        let both = cases(&["mbw", "os.pipe.rtt"]).unwrap();
        let peers: Vec<&str> = both.iter().map(|(peer, _)| *peer).collect();
        assert_eq!(peers, ["perf", "mbw"]);
        assert!(cases(&[]).unwrap().len() > memory.len());
        let writes = |words: &[&str]| {
            let all = cases(words).unwrap();
            all.iter().filter(|(_, case)| case.starts_with("file.write.throughput")).count()
        };
        assert_eq!([writes(&["dd"]), writes(&["file"]), writes(&[])], [6, 3, 3], "large files");
        assert_eq!(writes(&["file.write.throughput{file_bytes=10737418240}"]), 1);
    }

    #[test]
    fn unknown_word_suggests_nearest_names() {
        let message = |word: &str| cases(&[word]).unwrap_err().to_string();
        assert!(message("sysbnch").contains("did you mean `sysbench`"), "{}", message("sysbnch"));
        assert!(message("os.sycall").contains("`os.syscall`"), "{}", message("os.sycall"));
        let case = message("os.syscall{call=stat}");
        assert!(case.contains("cases: os.syscall{call=getppid_called}"), "{case}");
        assert!(message("cpu.call").contains("--list"), "{}", message("cpu.call"));
        assert!(message("fio{a=b}").contains("no group"), "{}", message("fio{a=b}"));
    }
}
