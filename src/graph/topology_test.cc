#include "graph/topology.h"

#include <gmock/gmock.h>

#include "graph/lower.h"
#include "tests/support/expect_error.h"
#include "tests/support/graph_builder.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Bytes(std::initializer_list<int> values) {
  std::string bytes;
  for (int value : values) bytes.push_back(static_cast<char>(value));
  return bytes;
}

// The message in `field`, with its length before it.
std::string Message(int field, const std::string& content) {
  return Bytes({field << 3 | 2, static_cast<int>(content.size())}) + content;
}

TEST(Topology, IsAnOnnxModelByteForByte) {
  GraphBuilder b;
  b.Input("a", DataType::kFloat32, Shape{2, -1}).Node("LeakyRelu", {"a"}, {"b"}, {{"alpha", 0.5F}});
  b.graph().nodes[0].name = "n";
  b.graph().name = "g";
  b.graph().opsets = {{"", 21}};
  b.Output("b");
  // Field numbers of onnx.proto3, by hand.
  const std::string half = Bytes({2 << 3 | 5, 0, 0, 0, 0x3F});
  const std::string alpha = Message(1, "alpha") + half + Bytes({0xA0, 1, 1});
  const std::string node = Message(1, "a") + Message(2, "b") + Message(3, "n") +
                           Message(4, "LeakyRelu") + Message(5, alpha) + Message(7, "");
  const std::string shape = Message(1, Bytes({1 << 3, 2})) + Message(1, "");
  const std::string type = Message(1, Bytes({1 << 3, 1}) + Message(2, shape));
  const auto info = [&](const char* name) { return Message(1, name) + Message(2, type); };
  const std::string graph =
      Message(1, node) + Message(2, "g") + Message(12, info("b")) + Message(11, info("a"));
  const std::string model = Bytes({1 << 3, 10}) + Message(2, "tandem") + Message(7, graph) +
                            Message(8, Message(1, "") + Bytes({2 << 3, 21}));
  EXPECT_EQ(WriteTopology(b.graph(), DefaultPlaces(b.graph())).model, model);
}

TEST(Topology, LargeConstantsAreInputsWithoutTheirBytes) {
  GraphBuilder b;
  b.Input("x")
      .Constant("large", DataType::kFloat32, {512})
      .Constant("small", DataType::kInt64, {3});
  b.Node("Op", {"x", "large", "small"}, {"y"}).Output("y");
  const Topology topology = WriteTopology(b.graph(), DefaultPlaces(b.graph()));
  EXPECT_EQ(topology.constants, std::vector<ValueId>{b["large"]});
  EXPECT_LT(topology.model.size(), 512u);
}

TEST(Topology, ConstantsThatMustBeConstantsAreWrittenOrReferredTo) {
  TempDir dir;
  GraphBuilder b;
  b.Input("x").Constant("inline", DataType::kFloat32, {512});
  b.Constant("file", DataType::kFloat32, {512});
  const auto file = MappedFile::Open(dir.Write("w.data", std::string(4096, 'z')));
  b.graph().values[b["file"]].weight = std::make_shared<const Weight>(
      WeightInFile("file", DataType::kFloat32, {512}, file, 64, 2048));
  b.Node("Op", {"x", "inline", "file"}, {"y"}).Output("y");
  std::vector<WeightPlace> places(b.graph().values.size(), WeightPlace::kExternal);
  const Topology topology = WriteTopology(b.graph(), places);
  EXPECT_TRUE(topology.constants.empty());
  EXPECT_THAT(topology.model, HasSubstr(file->path().string()));
  EXPECT_THAT(topology.model, Not(HasSubstr("zzzz")));
  EXPECT_GT(topology.model.size(), 2048u) << "what is in memory has no file to refer to";
}

TEST(Topology, SharedOpsReadTheSlots) {
  GraphBuilder b;
  b.Input("x", DataType::kFloat32, Shape{4, 64}).Constant("w", DataType::kFloat32, {64, 96});
  b.Result("y", DataType::kFloat32, Shape{4, 96}).Node("MatMul", {"x", "w"}, {"y"}).Output("y");
  const Graph graph = Lower(b.graph());
  const Topology topology = WriteTopology(graph, DefaultPlaces(graph));
  EXPECT_TRUE(topology.constants.empty());
  for (const char* part : {"SharedMatMul", "tandem.slots", "argument"}) {
    EXPECT_THAT(topology.model, HasSubstr(part));
  }
}

TEST(Topology, AnUnreadableAttributeIsAnError) {
  GraphBuilder b;
  b.Input("x").Node("Odd", {"x"}, {"y"}, {{"t", Unreadable{}}}).Output("y");
  EXPECT_TANDEM_ERROR(WriteTopology(b.graph(), DefaultPlaces(b.graph())), ErrorCode::kUnsupported,
                      "attribute");
}

}  // namespace
}  // namespace tandem
