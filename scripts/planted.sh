#!/usr/bin/env bash
# Plants each bug of planted.txt in a copy of the last commit and says which test notices it first. It fails if
# none does. ONLY=regexp picks bugs by their sentence.
set -uo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
copy=$(mktemp -d)
trap 'git -C "$top" worktree remove --force "$copy" >/dev/null 2>&1; rm -rf "$copy"' EXIT
git -C "$top" worktree add --quiet --detach "$copy" HEAD || exit 1
cd "$copy" || exit 1
unseen=0
while IFS=$'\t' read -r -u 3 what file expression packages; do
    case $what in '#'* | '') continue ;; esac
    [[ $what =~ ${ONLY:-.} ]] || continue
    sed -i "$expression" "$file"
    if git diff --quiet; then echo "NOT PLANTED: $what: $file has changed"; unseen=1; continue; fi
    began=$SECONDS noticed=
    for p in $packages; do
        dir=${p%@*} only=. # package@regexp runs some of the tests
        [[ $p == *@* ]] && only=${p#*@}
        module=. && [[ -f $dir/go.mod ]] && module=$dir dir=.
        out=$(timeout 600 go -C "$module" test -count=1 -failfast -run "$only" "$dir" 2>&1) && continue
        noticed=$(grep -m1 -oE -- '(--- FAIL: [^ ]+|panic: test timed out|\[build failed\]|panic: .{1,60}|^ok .*)' <<<"$out" || echo "time-out")
        noticed="$p ${noticed#--- FAIL: }"
        break
    done
    git checkout --quiet -- .
    case $noticed in
    *'build failed'*) echo "NOT PLANTED: $what: it does not compile"; unseen=1 ;;
    '') echo "UNSEEN: $what ($packages, $((SECONDS - began)) s)"; unseen=1 ;;
    *) echo "$what: $noticed, $((SECONDS - began)) s" ;;
    esac
done 3<"$top/scripts/planted.txt"
exit $unseen
