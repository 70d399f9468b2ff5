//! The page of the known answers of a load.

use std::path::Path;

use anyhow::{Context as _, Result};
use fathom_lab::evidence::{EvidenceContents, EvidenceOrigin, EvidenceParts, LOAD_LAB};

use super::row::{HEAD, LabRow};
use super::{LoadPart, PARTS};

pub(super) fn line<const N: usize>(cells: &[String; N]) -> String {
    format!("| {} |", cells.join(" | "))
}

fn table(rows: &[LabRow]) -> String {
    let mut text = format!("| {} |\n|{}\n", HEAD.join(" | "), "---|".repeat(HEAD.len()));
    for row in rows {
        text.push_str(&line(&row.cells()));
        text.push('\n');
    }
    text
}

/// Writes the page if all parts are complete, and returns the missed criteria.
pub(super) fn write(
    root: &Path,
    parts: &EvidenceParts<LoadPart>,
    [runs, seed]: &[String; 2],
) -> Result<Vec<String>> {
    let Some(parts) = parts.all(&PARTS) else { return Ok(Vec::new()) };
    let mut body = PREFACE.to_owned();
    for (name, _, part) in &parts {
        body += &format!("\n## Limits: {name}\n\n{}", table(&part.rows));
        body.extend(part.skipped.iter().map(|skipped| format!("\n- {skipped}\n")));
    }
    let criteria = parts.iter().flat_map(|(name, _, part)| part.criteria(name));
    let origins: Vec<(&str, &EvidenceOrigin)> = parts.iter().map(|it| (it.0, it.1)).collect();
    let contents = EvidenceContents {
        parameters: &[("RUNS", runs.clone()), ("SEED", seed.clone())],
        origins: &origins,
        criteria: &criteria.collect::<Vec<_>>(),
        body: &body,
    };
    LOAD_LAB.write(root, &contents).context(LOAD_LAB.path())
}

const PREFACE: &str = "\
A limit of known size is imposed on a server, its network or its client, and `fathom load` must
name it. Both ends are on one machine, in two network namespaces with a link. The server is
`fathom serve`, or nginx with one worker, of which only its processes are known (`--pid auto`).

- *Link*: a token bucket filter, of whole Ethernet frames. The share of payload is that of a file
  fetched just before, by the counters of the filter (`tc -s`; at most 1448 of 1514 bytes). The
  saturation must be within 2 %.
- *Disk*: blkio.throttle.read_bps_device of the server's cgroup; the files are evicted after each
  response, those of nginx again and again. Within 5 %. Fixed files that stay in memory must not be
  limited by the disk.
- *Server* and *client*: cpu.cfs_quota_us of their cgroups. The expected throughput of the server is
  that of wrk with 32 clients, just before: within 15 %. Of a limited client nothing is claimed:
  its steps are invalid.
- *Serial section*: `FATHOM_SERIALIZE` of `fathom serve`. Within 5 % and 0.15 ms, as it includes a
  wake-up.
- *Knee*: 1 + think time × expected throughput. With a think time of 1 s, the number of clients for
  95 % must be between 0.95 knees (constant service) and exact mean-value analysis (random
  service), ± 1; the throughput within 2 %.
- Random limits: the interval of the saturation must include the expected one, within the same
  shares; the runs are short. One sweep in five ends below the knee and must not be called
  saturated.
- *Theory*: random arrivals at a serial section whose time is measured first, by as many clients as
  saturate it, and a request alone, by one client. Mean and p90 by M/D/1 within 10 % at 50 and 80 %
  of what the section carries; the highest rate with p99 < 50 ms within 5 %.
- *Four members* of `fathom fleet load`, each in a namespace behind a link of 20 Mbit/s of its own
  to one nginx: four times the throughput of one within 5 %, by closed and by open loops; the merged
  99th percentile is that of the response times of all members, as each stored them, within 0.1 %.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::row::LoadOutcome;
    use crate::load::row::tests::row;

    #[test]
    fn page_has_both_parts_and_what_was_missed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join(fathom_lab::evidence::FOLDER)).unwrap();
        let [commit, machine, date] = ["1a", "A CPU", "2026-11-25"].map(str::to_owned);
        let origin = EvidenceOrigin { commit, machine, date };
        let parameters = ["20", "1"].map(str::to_owned);
        let mut parts = EvidenceParts::load(root.join("parts.json"), &parameters);
        let part = |outcomes: &[LoadOutcome]| LoadPart {
            rows: outcomes.iter().map(|outcome| row(*outcome)).collect(),
            skipped: vec!["disk of 20 MB/s: skipped: no cgroup".to_owned()],
        };
        parts.set("fixed", &origin, part(&[LoadOutcome::Right, LoadOutcome::WrongRate])).unwrap();
        assert_eq!(write(root, &parts, &parameters).unwrap(), [""; 0]);
        parts.set("random", &origin, part(&[LoadOutcome::Right; 4])).unwrap();
        parts.set("nginx", &origin, part(&[LoadOutcome::Right; 4])).unwrap();
        parts.set("theory", &origin, part(&[LoadOutcome::Right; 3])).unwrap();
        parts.set("fleet", &origin, part(&[LoadOutcome::Right; 2])).unwrap();
        let missed = write(root, &parts, &parameters).unwrap();
        let page = std::fs::read_to_string(root.join(LOAD_LAB.path())).unwrap();
        let criterion = "every fixed limit right: 1 of 2";
        assert_eq!(missed, [format!("{}: MISSED: {criterion}", LOAD_LAB.path())]);
        for text in [
            "PART=load RUNS=20 SEED=1`\n- Commit: 1a\n",
            &format!("| {criterion} | **MISSED** |\n| no random limit wrong: 0 of 4 | met |\n"),
            "WRONG RATE |\n\n- disk of 20 MB/s: skipped: no cgroup\n\n## Limits: random\n",
        ] {
            assert!(page.contains(text), "`{text}` is missing: {page}");
        }
    }

    #[test]
    fn random_limits_may_be_undetermined_but_not_wrong() {
        let good = |undetermined: usize, wrong: usize| {
            let right = 20 - undetermined - wrong;
            let outcomes = [(LoadOutcome::Right, right), (LoadOutcome::Undetermined, undetermined)];
            let outcomes = outcomes.into_iter().chain([(LoadOutcome::WrongName, wrong)]);
            let rows = outcomes.flat_map(|(outcome, count)| vec![row(outcome); count]).collect();
            let part = LoadPart { rows, ..LoadPart::default() };
            part.criteria("random").iter().all(|criterion| criterion.is_met)
        };
        assert!(good(0, 0) && good(3, 0));
        assert!(!good(4, 0) && !good(0, 1));
    }
}
