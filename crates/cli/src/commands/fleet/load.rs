//! `fathom fleet load`: gathers the shares of a load, and prints and stores what they are together.

use anyhow::bail;
use fathom_fleet::{Ended, FleetWork, LoadShare};
use fathom_load::{LoadOptions, LoadOrder, MergeMember};
use fathom_metric::{Ending, Procedure, ProcedureError, Recorder};
use fathom_record::{FarHost, Record};

use super::gather::{GatherRequest, Gathered, gather};
use super::run::random_label;
use super::summary::FleetSummary;
use crate::arguments::MemberOptions;
use crate::arguments::by_hand::{ByHandLoad as LoadWord, ProcedureArguments, Word as _};
use crate::arguments::fleet::FleetLoadArguments;
use crate::commands::by_hand::{by_hand, command_error};
use crate::exit::{Status, UsageError};
use crate::terminal;

pub(super) fn load(arguments: &FleetLoadArguments) -> anyhow::Result<Status> {
    let FleetLoadArguments { load, order, label, gather: members, output } = arguments;
    let order = order.clone().map_err(UsageError)?;
    let token = fathom_load::token(load).map_err(command_error)?;
    let label = label.clone().map_or_else(random_label, Ok)?;
    let command = LoadWord::command();
    let gathered = gather(&GatherRequest {
        gather: members,
        store: Some(&output.store),
        label: label.clone(),
        procedure: Some(command.path),
        together: true,
        at_once: usize::MAX,
        rounds: &|_| 1,
        work: &|_, place, members| {
            let (place, of, token) = (place as u32, members.len() as u32, token.clone());
            let LoadOrder { url, options } = order.clone().for_members(of);
            Some(FleetWork::Load(LoadShare { url, options, place, of, token }))
        },
        delivered: &|_| {},
    })?;
    let summary =
        FleetSummary::from_gathered(&gathered, Some(&label)).words() + &format!("; label {label}");
    if gathered.shares.is_empty() {
        if gathered.outcome.is_stopped {
            terminal::warn(&summary);
            return Ok(Status::Interrupted);
        }
        bail!("{summary}");
    }
    let whole = order.for_members(gathered.outcome.members.len() as u32).whole(load);
    let is_stopped = gathered.outcome.is_stopped;
    let merged = Merged::from_gathered(gathered, whole.map_err(UsageError)?, summary);
    let status = by_hand(&ProcedureArguments {
        path: command.path,
        procedure: Box::new(merged),
        label: Some(label),
        jsonl: false,
        output: output.clone(),
        file: None,
        force: false,
        member: MemberOptions::default(),
    })?;
    Ok(if is_stopped { Status::Interrupted } else { status })
}

/// A load that its members have made.
struct Merged {
    load: LoadOptions,
    members: Vec<MergeMember>,
    far: Vec<FarHost>,
    /// Who came.
    summary: String,
}

impl Merged {
    fn from_gathered(gathered: Gathered, load: LoadOptions, summary: String) -> Self {
        let Gathered { outcome, shares, .. } = gathered;
        let run_of = |name: &str| shares.iter().find(|run| run.host.name == name);
        let mut ends = outcome.members.iter().filter_map(|ended| run_of(&ended.member.name));
        let far = ends.next().map_or(Vec::new(), |run| run.far.clone());
        // The shares were given out in this order.
        let members = outcome.members.into_iter().map(|ended| {
            let records = run_of(&ended.member.name).map(|run| run.records.clone());
            member(ended, records)
        });
        let members = members.collect();
        Self { load, members, far, summary }
    }
}

fn member(ended: Ended, records: Option<Vec<Record>>) -> MergeMember {
    let Ended { member, skew, lost } = ended;
    let why = lost.unwrap_or_else(|| "it delivered nothing".to_owned());
    MergeMember {
        name: member.name,
        records: records.ok_or(why),
        start_ns: skew.map_or(0.0, |skew| skew.ns),
        start_error_ns: skew.map_or(0.0, |skew| skew.error_ns),
    }
}

impl Procedure for Merged {
    fn asked(&self) -> String {
        self.load.asked()
    }

    /// The clocks were those of the members.
    fn calibrates(&self) -> bool {
        false
    }

    fn judge(&self, records: &[Record]) -> Vec<fathom_analysis::limits::LimitJudged> {
        self.load.judge(records)
    }

    fn run(&self, recorder: &mut dyn Recorder) -> Result<Ending, ProcedureError> {
        recorder.confirm(&self.summary, false);
        self.far.iter().for_each(|far| recorder.add_far(far.clone()));
        self.load.merge(&self.members, recorder)
    }
}
