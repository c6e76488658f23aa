//! The order of ids.

use everhook_core::time::Timestamp;
use everhook_store::ids::Ids;

#[test]
fn ids_increase_and_a_seed_repeats_them() {
    let at = Timestamp::from_millis(1_750_000_000_000);
    let draw = |ids: Ids| (0..300).map(|_| ids.next(at)).collect::<Vec<_>>();
    let system = draw(Ids::from_system());
    assert!(system.is_sorted_by(|a, b| a < b));
    assert_eq!(draw(Ids::seeded(7)), draw(Ids::seeded(7)));
    assert_ne!(draw(Ids::seeded(7)), draw(Ids::seeded(8)));
}
