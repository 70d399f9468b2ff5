//! Remedies in a run: without options that it has already, or that change nothing on its host.

use fathom_record::{Effort, Host, Remedy, Run, Verdict};

/// Sets the remedies of a verdict.
pub(crate) fn set(verdict: &mut Verdict, run: &Run, host: &Host) {
    for reason in &mut verdict.reasons {
        let remedy = reason.remedy.take();
        let is_tuned = !run.tuned.is_empty();
        reason.remedy = remedy.and_then(|remedy| in_run(remedy, run.effort, is_tuned, host));
    }
}

fn in_run(remedy: Remedy, effort: Effort, is_tuned: bool, host: &Host) -> Option<Remedy> {
    use Remedy as R;
    let is_thorough = effort == Effort::Thorough;
    Some(match remedy {
        R::QuietCpu | R::MoveInterrupts | R::OtherCpu if host.cpu.allowed.len() == 1 => {
            R::StopOthers
        }
        // `--tune` sets governor and sibling, which a virtual machine has not.
        R::QuietCore if is_tuned || host.is_guest() => R::QuieterHost,
        R::CountGroups | R::MeasureLonger if is_thorough => {
            R::Repeat { option: Some("processes".to_owned()) }
        }
        R::LetSettleOrMeasureLonger if is_thorough => R::LetSettle,
        R::FollowDrift if is_thorough => return None,
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedy_names_no_option_that_changes_nothing() {
        let mut host = Host::default();
        host.cpu.allowed = vec![0, 1];
        for remedy in [Remedy::QuietCpu, Remedy::QuietCore, Remedy::MeasureLonger] {
            let same = in_run(remedy.clone(), Effort::Standard, false, &host);
            assert_eq!(same, Some(remedy));
        }
        let thorough = |remedy: Remedy| in_run(remedy, Effort::Thorough, false, &host);
        let more = Remedy::Repeat { option: Some("processes".to_owned()) };
        assert_eq!(thorough(Remedy::MeasureLonger), Some(more.clone()));
        assert_eq!(thorough(Remedy::CountGroups), Some(more));
        assert_eq!(thorough(Remedy::FollowDrift), None);
        assert_eq!(thorough(Remedy::LetSettleOrMeasureLonger), Some(Remedy::LetSettle));
        let tuned = in_run(Remedy::QuietCore, Effort::Standard, true, &host);
        assert_eq!(tuned, Some(Remedy::QuieterHost));
        host.cpu.allowed = vec![3];
        for remedy in [Remedy::QuietCpu, Remedy::OtherCpu, Remedy::MoveInterrupts] {
            let of_one = in_run(remedy, Effort::Standard, false, &host);
            assert_eq!(of_one, Some(Remedy::StopOthers), "no other CPU");
        }
    }
}
