// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that wait for each other in a circle: the strongly connected components of a graph, by
//! Tarjan's algorithm without recursion. The caller's stack is small, and a chain may be long.
use std::collections::HashMap;
use std::hash::Hash;

/// The state of a node that the search has reached.
struct Reached {
    order: usize,
    low: usize,
    is_open: bool,
}

/// The components of all nodes that can be reached from `start`, each before the components that
/// wait for it. `next` has the nodes that a node waits for.
pub(super) fn components<Id: Copy + Eq + Hash>(
    start: Id,
    next: impl Fn(Id) -> Vec<Id>,
) -> Vec<Vec<Id>> {
    let mut found = Vec::new();
    let mut reached: HashMap<Id, Reached> = HashMap::new();
    let mut open: Vec<Id> = Vec::new();
    let mut path: Vec<(Id, Vec<Id>)> = Vec::new();
    let enter = |id: Id, reached: &mut HashMap<Id, Reached>, open: &mut Vec<Id>| {
        let order = reached.len();
        reached.insert(id, Reached { order, low: order, is_open: true });
        open.push(id);
        (id, next(id))
    };
    path.push(enter(start, &mut reached, &mut open));
    while let Some((id, rest)) = path.last_mut() {
        let id = *id;
        if let Some(to) = rest.pop() {
            match reached.get(&to).map(|to| (to.order, to.is_open)) {
                None => path.push(enter(to, &mut reached, &mut open)),
                Some((order, true)) => lower(&mut reached, id, order),
                Some(_) => {}
            }
            continue;
        }
        path.pop();
        let Some((order, low)) = reached.get(&id).map(|it| (it.order, it.low)) else { continue };
        if let Some((waiter, _)) = path.last() {
            lower(&mut reached, *waiter, low);
        }
        if low == order {
            let at = open.iter().rposition(|it| *it == id).unwrap_or(0);
            let component = open.split_off(at);
            for id in &component {
                if let Some(node) = reached.get_mut(id) {
                    node.is_open = false;
                }
            }
            found.push(component);
        }
    }
    found
}

fn lower<Id: Eq + Hash>(reached: &mut HashMap<Id, Reached>, id: Id, to: usize) {
    if let Some(node) = reached.get_mut(&id) {
        node.low = node.low.min(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(start: u32, edges: &[(u32, u32)]) -> Vec<Vec<u32>> {
        let next = |id| edges.iter().filter(|it| it.0 == id).map(|it| it.1).collect();
        let mut found = components(start, next);
        found.iter_mut().for_each(|component| component.sort_unstable());
        found
    }

    #[test]
    fn a_chain_has_components_of_one_and_the_last_holder_comes_first() {
        assert_eq!(of(1, &[(1, 2), (2, 3), (1, 3)]), [vec![3], vec![2], vec![1]]);
        assert_eq!(of(7, &[]), [vec![7]]);
    }

    #[test]
    fn a_circle_is_one_component() {
        let edges = [(1, 2), (2, 3), (3, 2), (3, 4), (4, 5), (5, 4), (9, 1)];
        assert_eq!(of(1, &edges), [vec![4, 5], vec![2, 3], vec![1]]);
        assert_eq!(of(1, &[(1, 1)]), [vec![1]]);
    }

    #[test]
    fn a_long_chain_needs_no_stack() {
        let next = |id: u32| if id < 100_000 { vec![id + 1] } else { vec![] };
        assert_eq!(components(0, next).len(), 100_001);
    }
}
