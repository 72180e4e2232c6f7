# What is typed of a path of a file system that need not be mounted is completed by asking it.
_onpath_or_paths() {
    local at= literal= word=${(Q)words[CURRENT]} i
    local -a names
    case ${words[2]} in
        ls|stat|tree|cat|get|put|mkdir|touch|mv|ln|rm) at=$ONPATH_AT ;;
        find|du|rmr|chmod|chown) ;;
        *) _onpath "$@"; return ;;
    esac
    for (( i = 3; i < CURRENT; i++ )); do
        case ${words[i]} in
            --at) at=${(Q)words[i + 1]} ;;
            --literal) literal=--literal ;;
            --at=*) at=${(Q)words[i]#--at=} ;;
        esac
    done
    if [[ $word == onpath://*/* || ( -n $at && $word != -* && ${words[CURRENT - 1]} != --at ) ]]; then
        names=(${(f)"$(onpath complete-path ${at:+--at=$at} $literal -- $word 2>/dev/null)"})
        if (( $#names )); then
            compadd -S '' -- $names
            return
        fi
    fi
    _onpath "$@"
}
compdef _onpath_or_paths onpath
