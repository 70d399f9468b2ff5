//! What servers may send, for the fuzzer in `fuzz/` and for tests, which replay its corpus. Each
//! result is compared with that of the same bytes in other pieces.

use crate::{Chunks, Framing, PartialHead, parse};

/// A body in chunks.
pub fn chunks(data: &[u8]) {
    let whole = fed(data, data.len().max(1));
    let third = 1 + data.len() / 3;
    assert!([1, 2, 7, third].iter().all(|&piece| fed(data, piece) == whole), "{whole:?}");
}

/// The body, and the position after it or what is malformed.
fn fed(data: &[u8], piece: usize) -> (Vec<u8>, Result<Chunks, &'static str>) {
    let (mut chunks, mut body) = (Chunks::default(), Vec::new());
    let mut feed = |part| chunks.feed_to(part, |data| body.extend_from_slice(data));
    let end = data.chunks(piece).try_for_each(&mut feed).map_err(|malformed| malformed.part);
    (body, end.map(|()| chunks))
}

/// The head of a response: no beginning of it has another result.
pub fn response(data: &[u8]) {
    let Ok(Some(whole)) = parse(data) else { return };
    assert!(whole.bytes <= data.len() && data[..whole.bytes].ends_with(b"\n"));
    assert_eq!(parse(&data[..whole.bytes]), Ok(Some(whole)));
    for end in [whole.bytes - 1, whole.bytes / 2, whole.bytes / 3] {
        let mut pieces = PartialHead::default();
        assert_eq!(pieces.add(&data[..end], |_, _, _| {}), Ok(None));
        let rest = &data[whole.bytes..];
        assert_eq!(pieces.add(&data[end..], |_, _, _| {}), Ok(Some((whole, rest))));
    }
    assert!(!whole.keeps || whole.framing != Framing::UntilClose);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_of_the_fuzzer_is_handled() {
        for (name, target) in [("chunks", chunks as fn(&[u8])), ("response", response)] {
            let folder = format!("{}/../../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
            let entries: Vec<_> = std::fs::read_dir(folder).expect("a corpus").collect();
            assert!(entries.len() >= 10, "{name}: {} inputs", entries.len());
            for entry in entries {
                target(&std::fs::read(entry.expect("an entry").path()).expect("a file"));
            }
        }
    }
}
