//! Tests of the less obvious test tools.

use everhook_testkit::wire::{Kind, Splitter};

#[test]
fn a_commit_is_known_wherever_the_bytes_are_split() {
    let mut stream = vec![0, 0, 0, 8, 4, 210, 22, 47];
    stream.extend([0, 0, 0, 9, 0, 3, 0, 0, 0]);
    stream.extend(b"S\0\0\0\x04");
    stream.extend(b"Q\0\0\0\x0bcommit\0");
    for step in 1..stream.len() {
        let mut splitter = Splitter::default();
        let mut kinds = Vec::new();
        for chunk in stream.chunks(step) {
            splitter.push(chunk);
            kinds.extend(std::iter::from_fn(|| splitter.next_message()).map(|(kind, _)| kind));
        }
        assert_eq!(kinds, [Kind::Other, Kind::Other, Kind::Sync, Kind::Commit]);
    }
}
