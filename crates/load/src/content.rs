//! What verified bodies are compared with (`--body verify`).

use fathom_fileio::XorSum;

use crate::make;
use crate::requests::Requests;
use crate::target::Target;

/// A larger file is not fetched to find out whether `--make` made it.
const FETCHED_MAX: u64 = 256 << 20;

/// Computes the sums of all files if `--make` made them; otherwise the first response of each file
/// is what later ones are compared with. Returns which, in words. Ends early if `goes_on` is false.
pub fn know(target: &mut Target, goes_on: &mut dyn FnMut() -> bool) -> &'static str {
    let requests = &target.requests;
    let last = requests.len() as u32 - 1;
    // Three files, so that a single one with wrong content does not hide that they are a set.
    let is_set = [0, last / 2, last].iter().any(|&file| {
        let Some((number, bytes)) = made(requests, file) else { return false };
        let Some(control) = target.control.as_mut().filter(|_| bytes <= FETCHED_MAX) else {
            return false;
        };
        let answer = control.ask("GET", &requests.path(file), bytes);
        answer.is_ok_and(|answer| XorSum::over(&answer.body) == make::sum(number, bytes))
    });
    if !is_set {
        return "the first response of each file";
    }
    for file in (0..=last).take_while(|_| goes_on()) {
        if let Some((number, bytes)) = made(requests, file) {
            requests.content(file, || make::sum(number, bytes));
        }
    }
    "the contents that --make writes"
}

/// The number in a set and the length of a file, by its name.
fn made(requests: &Requests, file: u32) -> Option<(u64, u64)> {
    let path = requests.path(file);
    Some((make::number(path.rsplit('/').next()?)?, requests.bytes(file)?))
}
