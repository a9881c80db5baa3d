#include "oracle.hpp"

#include "node.hpp"

namespace weir::net::sim {

conversation& oracle::add_conversation(bool stream) {
  auto& c = conversations.emplace_back();
  c.number = static_cast<uint32_t>(conversations.size() - 1);
  c.stream = stream;
  for (unsigned i = 0; i < 2; ++i)
    c.sides[i].of = &c, c.sides[i].index = i;
  return c;
}

call_record& oracle::of_token(uint64_t token) {
  if (token == 0 || token > calls.size())
    throw broken{"a call that nobody made: token " + std::to_string(token)};
  return calls[token - 1];
}

uint64_t oracle::add_call(call_record c) {
  calls.push_back(c);
  return calls.size();
}

std::string name_of(const side_of& s) {
  auto text = "conversation " + std::to_string(s.of->number) + (s.of->stream ? " (stream)" : "");
  text += s.index == 0 ? " at its opener" : " at its acceptor";
  if (s.at)
    text += ", node " + std::to_string(s.at->of->index);
  if (s.with)
    text += ", session " + std::to_string(s.with->id());
  return text;
}

} // namespace weir::net::sim
