//! Feeds an input to one parser. The first byte chooses the parser, so that one search covers all of them.

#![no_main]

#[path = "../../crates/everhook-tests/tests/node/fuzz/targets.rs"]
mod targets;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Some((first, input)) = input.split_first() {
        let target = &targets::TARGETS[usize::from(*first) % targets::TARGETS.len()];
        let _ = target.name;
        (target.run)(input);
    }
});
