#include "graph/wide_integers.h"

#include <gtest/gtest.h>

#include "tests/support/graph_builder.h"

namespace tandem {
namespace {

constexpr DataType kI64 = DataType::kInt64;

// Names of the operators that 32-bit arithmetic could spoil.
std::string Unsafe(const Graph& graph) {
  const GraphIndex index(graph);
  const WideIntegers wide(graph, index);
  std::vector<std::string> ops;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    if (wide.IsUnsafe(id)) ops.push_back(graph.nodes[id].op_type);
  }
  return Join(ops, " ");
}

TEST(WideIntegers, ArithmeticOnInputsIsUnsafe) {
  GraphBuilder b;
  b.Input("a", kI64)
      .ConstantValues<int64_t>("one", kI64, {1}, {1})
      .Node("Add", {"a", "one"}, {"b"})
      .Output("b");
  EXPECT_EQ(Unsafe(b.graph()), "Add");
}

TEST(WideIntegers, ArithmeticOnShapesIsSafe) {
  GraphBuilder b;
  b.Input("x").ConstantValues<int64_t>("two", kI64, {1}, {2});
  b.Result("shape", kI64, Shape{2}).Node("Shape", {"x"}, {"shape"});
  b.Node("Mul", {"shape", "two"}, {"double"}).Node("Concat", {"double", "two"}, {"c"});
  b.Output("c");
  EXPECT_EQ(Unsafe(b.graph()), "");
}

TEST(WideIntegers, ReductionsAreSafeForSizesOnly) {
  GraphBuilder b;
  b.Input("x").Result("shape", kI64, Shape{2}).Result("where", kI64, Shape{2, 1});
  b.Node("Shape", {"x"}, {"shape"}).Node("ReduceMax", {"shape"}, {"longest"});
  b.Node("ReduceProd", {"shape"}, {"elements"});
  b.Node("ArgMax", {"x"}, {"where"}).Node("ReduceMin", {"where"}, {"first"});
  b.Output("longest").Output("elements").Output("first");
  EXPECT_EQ(Unsafe(b.graph()), "ReduceProd ReduceMin");
}

TEST(WideIntegers, TokenIdsThatOnlyIndexAreSafe) {
  GraphBuilder b;
  b.Input("ids", kI64).Constant("axes", kI64, {1}).Constant("table", DataType::kFloat32, {8, 4});
  b.Node("Unsqueeze", {"ids", "axes"}, {"more"}).Node("Gather", {"table", "more"}, {"rows"});
  b.Output("rows");
  EXPECT_EQ(Unsafe(b.graph()), "");
}

TEST(WideIntegers, TokenIdsThatAreReturnedToo) {
  GraphBuilder b;
  b.Input("ids", kI64).Constant("axes", kI64, {1}).Constant("table", DataType::kFloat32, {8, 4});
  b.Node("Unsqueeze", {"ids", "axes"}, {"more"}).Node("Gather", {"table", "more"}, {"rows"});
  b.Output("rows").Output("more");
  EXPECT_EQ(Unsafe(b.graph()), "Unsqueeze");
}

TEST(WideIntegers, CastsOfInputsAreUnsafe) {
  GraphBuilder b;
  b.Input("a", kI64).Result("f", DataType::kFloat32).Node("Cast", {"a"}, {"f"}).Output("f");
  EXPECT_EQ(Unsafe(b.graph()), "Cast");
}

TEST(WideIntegers, CastsFromShorterTypesAreSafeUntilTheyAreAdded) {
  GraphBuilder b;
  b.Input("a", DataType::kInt32).ConstantValues<int64_t>("one", kI64, {1}, {1}).Result("w", kI64);
  b.Result("less", DataType::kBool);
  b.Node("Cast", {"a"}, {"w"}).Node("Less", {"w", "one"}, {"less"}).Output("less");
  EXPECT_EQ(Unsafe(b.graph()), "");
  b.Node("Add", {"w", "one"}, {"sum"}).Output("sum");
  EXPECT_EQ(Unsafe(b.graph()), "Add");
}

TEST(WideIntegers, CastsFromFloatAreUnsafeUnlessTheyIndex) {
  GraphBuilder b;
  b.Input("x").Constant("table", DataType::kFloat32, {8, 4}).Result("i", kI64);
  b.Node("Cast", {"x"}, {"i"}).Node("Gather", {"table", "i"}, {"rows"}).Output("rows");
  EXPECT_EQ(Unsafe(b.graph()), "");
  b.Output("i");
  EXPECT_EQ(Unsafe(b.graph()), "Cast");
}

TEST(WideIntegers, LargeConstantsAreWideButEndsOfSlicesAreNot) {
  GraphBuilder b;
  b.Input("x").ConstantValues<int64_t>("end", kI64, {1}, {INT64_MAX});
  b.ConstantValues<int64_t>("large", kI64, {1}, {int64_t{3} << 32});
  b.Result("shape", kI64, Shape{2}).Node("Shape", {"x"}, {"shape"});
  b.Node("Slice", {"x", "shape", "end"}, {"part"}).Output("part");
  EXPECT_EQ(Unsafe(b.graph()), "");
  b.Node("Mul", {"shape", "large"}, {"m"}).Output("m");
  EXPECT_EQ(Unsafe(b.graph()), "Mul");
}

TEST(WideIntegers, PositionsInATensorAreSafeToReturn) {
  GraphBuilder b;
  b.Input("x").Result("at", kI64).Node("ArgMax", {"x"}, {"at"}).Output("at");
  EXPECT_EQ(Unsafe(b.graph()), "");
}

TEST(WideIntegers, UnsignedIntegersCountToo) {
  GraphBuilder b;
  b.Input("a", DataType::kUint32).Node("Mul", {"a", "a"}, {"b"}).Output("b");
  EXPECT_EQ(Unsafe(b.graph()), "Mul");
}

}  // namespace
}  // namespace tandem
