# What is typed of a path of a file system that need not be mounted is completed by asking it.
_onpath_paths() {
    local line=${COMP_LINE:0:COMP_POINT} verb=${COMP_WORDS[1]} at= literal= word name
    word=${line##*[[:space:]]}
    case $verb in
        ls | stat | tree | cat | get | put | mkdir | touch | mv | ln | rm) at=$ONPATH_AT ;;
        find | du | rmr | chmod | chown) ;;
        *) return 1 ;;
    esac
    [[ $line =~ [[:space:]]--at[=[:space:]]+([^[:space:]]+)[[:space:]] ]] && at=${BASH_REMATCH[1]}
    [[ $line =~ [[:space:]]--literal[[:space:]] ]] && literal=--literal
    [[ $word == onpath://*/* || ( -n $at && $word != -* ) ]] || return 1
    COMPREPLY=()
    while IFS= read -r name; do
        printf -v name %q "$name"
        # The shell takes what follows a colon for a word of its own.
        [[ $COMP_WORDBREAKS == *:* ]] && name=${name##*:}
        COMPREPLY+=("$name")
    done < <(onpath complete-path ${at:+--at "$at"} $literal -- "$word" 2>/dev/null)
    [[ ${#COMPREPLY[@]} -gt 0 ]] || return 1
    [[ ${COMPREPLY[*]} != */ ]] || compopt -o nospace 2>/dev/null
    return 0
}
_onpath_or_paths() {
    _onpath_paths || _onpath "$@"
}
complete -F _onpath_or_paths -o bashdefault -o default onpath
