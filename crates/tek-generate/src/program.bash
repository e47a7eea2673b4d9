
# Sets `at` to the index of the first word of the program that a command of tek starts. Fails where
# the cursor is before it. A word with = or : in it is several words here: COMP_WORDBREAKS.
__tek_program_at() {
    local i=1 path="" valued="" word
    while true; do
        (( i < COMP_CWORD )) || return 1
        path="${path:+$path }${COMP_WORDS[i++]}"
        case $path in
{CASES}        -*) return 1 ;;
        esac
    done
    for (( ; i <= COMP_CWORD; i++ )); do
        word=${COMP_WORDS[i]}
        case $word in
        =|:)
            (( i++ ))
            ;;
        --)
            (( i < COMP_CWORD )) || return 1
            at=$(( i + 1 ))
            return 0
            ;;
        -*)
            if [[ " $valued " == *" $word "* && ${COMP_WORDS[i+1]} != "=" ]]; then
                (( i++ ))
            fi
            ;;
        *)
            if [[ $valued != *" only-after-dashes" ]]; then
                at=$i
                return 0
            fi
            ;;
        esac
    done
    return 1
}

# The program's words are completed as if it had been typed alone, as after sudo and env.
__tek_complete() {
    local at list cur=$2
    if ! __tek_program_at; then
        _tek "$@"
        # The next one of a list.
        if [[ $cur == *,* && ${#COMPREPLY[@]} -eq 0 ]]; then
            list="${cur%,*},"
            _tek "$1" "${cur##*,}" "$3"
            COMPREPLY=("${COMPREPLY[@]/#/$list}")
        fi
    elif declare -F _comp_command_offset > /dev/null; then
        _comp_command_offset "$at"
    elif declare -F _command_offset > /dev/null; then
        _command_offset "$at"
    elif (( COMP_CWORD == at )); then
        mapfile -t COMPREPLY < <(compgen -c -- "$cur"; compgen -d -- "$cur")
    else
        COMPREPLY=() # file names
    fi
}

if (( BASH_VERSINFO[0] > 4 || BASH_VERSINFO[0] == 4 && BASH_VERSINFO[1] >= 4 )); then
    complete -F __tek_complete -o nosort -o bashdefault -o default tek
else
    complete -F __tek_complete -o bashdefault -o default tek
fi
